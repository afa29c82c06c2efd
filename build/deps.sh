#!/usr/bin/env bash
# Installs the Debian packages that the real cluster needs and that are missing.
set -euo pipefail
missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need ip iproute2
need nsenter util-linux
need busybox busybox-static
need gcc gcc
[ -e /usr/include/seccomp.h ] || missing+=(libseccomp-dev)
[ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
if [ ${#missing[@]} -gt 0 ]; then
	echo "installing ${missing[*]}"
	log=$(mktemp)
	if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
		cat "$log" >&2
		echo "installing ${missing[*]} failed: install them by hand, as root" >&2
		exit 1
	fi
	rm -f "$log"
fi
