/* What the sandbox of an installation is given, see install-plan.h. */
#include "broker/install-plan.h"
#include "broker/package-installer.h"
#include "common/memfd.h"

#include <stdio.h>
#include <string.h>

#define WHEELS "/wheels"
/* What is got lies in the workspace beside what is made of it, and there is the installer. */
#define WHEELS_BYTES (UINT64_C(256) << 20)
#define MEMORY_BYTES (UINT64_C(512) << 20)
#define LIFETIME_MARGIN_USEC (60 * 1000 * 1000ULL)

static int add_requirements(json_object *request, const struct install_request *from)
{
    json_object *list = json_object_new_array();
    int r = json_add(request, "requirements", list);

    for (size_t i = 0; r >= 0 && i < from->n_packages; i++) {
        const struct package *package = &from->packages[i];
        size_t room = strlen(package->text) + 1 +
                      package->n_hashes * (sizeof(" --hash=sha256:") + sizeof(package_hash));
        _cleanup_free_ char *text = malloc(room);
        if (!text)
            return -ENOMEM;
        size_t used = (size_t)sprintf(text, "%s", package->text);
        for (size_t j = 0; j < package->n_hashes; j++)
            used += (size_t)sprintf(text + used, " --hash=sha256:%s", package->hashes[j]);
        r = json_append(list, json_object_new_string(text));
    }
    return r;
}

static json_object *make_request(const struct config_packages *packages,
                                 const struct install_request *from)
{
    const struct package_index *index = config_packages_index(packages, from->ecosystem);
    _cleanup_json_ json_object *request = json_object_new_object();
    char target[64];

    snprintf(target, sizeof(target), INSTALL_WORKSPACE "/%s",
             package_installer(from->ecosystem)->folder);
    if (!request || json_add_string(request, "target", target) < 0 ||
        json_add_string(request, "index", index->is_directory ? WHEELS : index->text) < 0 ||
        add_requirements(request, from) < 0 ||
        json_add_bool(request, "requireHashes", from->require_hashes) < 0 ||
        json_add_bool(request, "onlyBinary", packages->only_binary) < 0 ||
        json_add_uint64(request, "bytes", packages->layer_bytes) < 0 ||
        json_add_uint64(request, "seconds", packages->timeout_usec / 1000000) < 0 ||
        json_add_uint64(request, "most", INSTALL_RESOLVED_MAX) < 0)
        return NULL;
    return TAKE_PTR(request);
}

int install_plan_files(const struct config_packages *packages, const struct install_request *from,
                       int ret[2])
{
    const struct package_installer *installer = package_installer(from->ecosystem);
    _cleanup_json_ json_object *request = make_request(packages, from);
    size_t size;
    const char *text = request ? json_text(request, &size) : NULL;

    if (!text)
        return -ENOMEM;
    ret[0] = memfd_with("sbxctl", installer->text, installer->size);
    if (ret[0] < 0)
        return ret[0];
    ret[1] = memfd_with("sbxctl", text, size);
    return ret[1] < 0 ? ret[1] : 0;
}

/* What is installed lies in memory, too, but no sandbox has more of it than the administrator's
 * most. */
uint64_t install_memory(const struct config *config)
{
    uint64_t wanted = config->packages.layer_bytes + MEMORY_BYTES;

    return wanted < config->ceiling.memory_bytes ? wanted : config->ceiling.memory_bytes;
}

uint64_t install_cpus(const struct config *config)
{
    return config->ceiling.cpu_percent;
}

void install_plan_sandbox(const struct config *config, const char *id,
                          const struct install_request *from, struct engine_start *ret)
{
    const struct config_packages *packages = &config->packages;
    const struct package_index *index = config_packages_index(packages, from->ecosystem);

    *ret = (struct engine_start){
        .owner_uid = from->uid,
        .cpu_percent = (uint32_t)install_cpus(config),
        .tasks = (uint32_t)config->tasks,
        .workspace_inodes = (uint32_t)(2 * packages->layer_files + 1000),
        .memory_bytes = install_memory(config),
        .workspace_bytes = packages->layer_bytes + WHEELS_BYTES,
        .scratch_bytes = config->scratch_bytes,
        .lifetime_usec = packages->timeout_usec + config->start_timeout_usec + LIFETIME_MARGIN_USEC,
    };
    snprintf(ret->run_id, sizeof(ret->run_id), "%s", id);
    if (from->image)
        snprintf(ret->image, sizeof(ret->image), "%s", from->image);
    if (index->is_directory)
        snprintf(ret->wheels, sizeof(ret->wheels), "%s", index->text);
}
