/* The installers, made part of the broker when it is built; see package-installer.h. */
#include "broker/package-installer.h"

#include "packages/install-node.mjs.h"
#include "packages/install-python.py.h"

static const struct package_installer installers[] = {
    [ECOSYSTEM_PYTHON] = { "install-python.py", install_python_py_text,
                           sizeof(install_python_py_text) - 1, "packages" },
    [ECOSYSTEM_NODE] = { "install-node.mjs", install_node_mjs_text,
                         sizeof(install_node_mjs_text) - 1, "node_modules" },
};

const struct package_installer *package_installer(enum ecosystem ecosystem)
{
    return &installers[ecosystem];
}
