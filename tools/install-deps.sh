#!/usr/bin/env bash
# Installs Millrace's dependencies from Debian 12 or 13, or Ubuntu 24.04, and additional packages given. Does nothing if all of
# them are installed; does not prompt. usage: tools/install-deps.sh [PACKAGE...]
set -euo pipefail

packages=(  # names common to all of them; libjpeg-dev is libjpeg-turbo in each
  g++ cmake ninja-build
  libtbb-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev   # the framework
  libjpeg-dev                                                    # plugins/stages/decode_image, tools/pipeline-data
  libpng-dev                                                     # plugins/stages/decode_image, plugins/stages/png_file
  libcairo2-dev libfribidi-dev fonts-dejavu-core                 # plugins/drawing
  libre2-dev                                                     # plugins/sources/read_folder
  libdnnl-dev                                                    # plugins/backends/cpu
  libssl-dev                                                     # the framework (SHA-256), plugins/storage/s3
  libcurl4-openssl-dev                                           # plugins/storage/s3, plugins/storage/http, plugins/observers
  libmicrohttpd-dev                                              # plugins/observers/page
  libpugixml-dev                                                 # plugins/storage/s3, plugins/annotations
  zlib1g-dev                                                     # plugins/sources/read_annotations, and the tests
  libprotobuf-dev protobuf-compiler                              # plugins/observers/tensorboard
  libopenmpi-dev openmpi-bin                                     # plugins/communicators/mpi
  graphviz                                                       # pipeline-inspect --svg
  libgtest-dev python3 python3-jsonschema openssl                # the tests
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) || status=none
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps.sh: these packages are missing and neither root nor sudo is at hand: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "install-deps.sh: '$*' failed; its last lines stand above" >&2
    exit 1
  fi
}

echo "installing ${missing[*]}" >&2
quietly apt-get update -q
quietly apt-get install -q -y --no-install-recommends "${missing[@]}"
