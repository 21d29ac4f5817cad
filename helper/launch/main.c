/* sbxctl-launch's entry, apart from launch.c so that tests can have a workspace of their own. */
#include "launch.h"

int main(int argc, char *argv[])
{
    return launch_main("/workspace", argc, argv);
}
