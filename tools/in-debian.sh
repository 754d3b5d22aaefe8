#!/usr/bin/env bash
# Runs a command on this source tree inside another release of Debian. usage: tools/in-debian.sh RELEASE COMMAND [ARGUMENT...]
#   tools/in-debian.sh 13 tools/quickstart.sh
#
# RELEASE is 12 or 13. Its root folder, made by debootstrap, is $MILLRACE_ROOTS/debianRELEASE (MILLRACE_ROOTS: by default
# ~/.cache/millrace/roots). It stays there with everything installed and built; remove it to begin with a bare system. All files
# that git tracks are copied to /millrace in it, as they are now. Packages come from the mirror of Debian that apt uses here, else
# from debootstrap's. Mounts belong to the command's own mount namespace, so none outlives it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { echo "in-debian.sh: $1" >&2; exit "${2:-1}"; }

# The first mirror of Debian in apt's configuration, if there is one.
debian_mirror() {
  # shellcheck disable=SC2016  # apt-get expands it
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | sed -n 1p
}

[ $# -ge 2 ] || die "usage: tools/in-debian.sh RELEASE COMMAND [ARGUMENT...]" 2
case $1 in
  12) suite=bookworm ;;
  13) suite=trixie ;;
  *) die "it knows Debian 12 and 13, not '$1'" 2 ;;
esac
root=${MILLRACE_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/millrace/roots}/debian$1
shift

[ "$(id -u)" -eq 0 ] || die "it needs root for chroot: run it with sudo"
for program in debootstrap git unshare; do
  command -v "$program" >/dev/null || die "it needs $program (Debian: apt-get install debootstrap git util-linux)"
done

if [ ! -d "$root" ]; then
  mirror=$(debian_mirror) || mirror=
  echo "in-debian.sh: making $root" >&2
  mkdir -p "$(dirname "$root")"
  rm -rf "$root.part"
  debootstrap --variant=minbase "$suite" "$root.part" ${mirror:+"$mirror"} >"$root.log" ||
    die "debootstrap failed; see $root.log and $root.part/debootstrap/debootstrap.log"
  mv "$root.part" "$root"
fi

# Only differences are copied, with the time of the copy: a file older than earlier build output would count as built.
# Files deleted here are deleted there too; builds and drawn images stay.
mkdir -p "$root/millrace"
tracked() { git ls-files | while IFS= read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done | LC_ALL=C sort; }
present() {
  (cd "$root/millrace" && find . \( -path ./build -o -path ./data -o -path ./runs \) -prune -o ! -type d -printf '%P\n') |
    LC_ALL=C sort
}
LC_ALL=C comm -13 <(tracked) <(present) | while IFS= read -r file; do rm "$root/millrace/$file"; done
tracked | while IFS= read -r file; do
  cmp --silent "$file" "$root/millrace/$file" || cp --parents "$file" "$root/millrace"
done
cp -L /etc/resolv.conf "$root/etc/resolv.conf"

# shellcheck disable=SC2016  # the inner shell expands them
exec unshare --mount --propagation private bash -euc '
  root=$1; shift
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM="${TERM:-dumb}" \
    sh -c "cd /millrace && exec \"\$@\"" sh "$@"' bash "$root" "$@"
