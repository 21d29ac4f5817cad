/* Where the service keeps what its sandboxes see of it: RuntimeDirectory= in its unit file. systemd
 * makes it, and removes it at the end with whatever a crash left in it. */
#pragma once

#define RUNTIME_DIR "/run/sbxctl-engine-systemd"
