#!/bin/sh
# Tells where it runs and what it can reach: a first look into the sandbox.
#
#     sbxctl run hello.sh

echo "Hello from $(pwd), as $(id -un 2>/dev/null || id -u)."
echo "Processes here: $(ls -d /proc/[0-9]* | wc -l)"
echo "Network interfaces: $(sed -n 's/^ *\([a-z0-9]*\):.*/\1/p' /proc/net/dev | tr '\n' ' ')"
echo "This was written by hello.sh." >hello.txt
