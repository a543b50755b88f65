#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Usage: lifecycle.sh VERSION
#
# Runs as root in a disposable Debian system. The packages are in /packages, the programs to build in /test.
set -eu
version=$1
ours="librpma0 librpma-dev librpma-tools librpmem1 librpmem-dev librpma-mirror0 librpma-mirror-dev librpma-mirror-etcd nbdkit-plugin-rpma-mirror python3-rpma rpmemd rpmem-tools softrdma"
examples=/usr/share/doc/librpma-dev/examples

fail() {
    echo "FAIL: $1" >&2
    exit 1
}

apt() {
    apt-get -qq -o APT::Sandbox::User=root "$@" >/test/apt.log 2>&1 || fail "apt-get $*: $(cat /test/apt.log)"
}

# Lists remaining files other than the packages and this test.
remains() {
    find / \( -path /proc -o -path /dev -o -path /sys -o -path /packages -o -path /test -o -path /var/log \
        -o -path /var/lib/apt -o -path /var/cache/apt \) -prune -o \( -name '*rpma*' -o -name '*softrdma*' \) -print
}

# Checks that no package, configuration file or other file remains. apt knows only packages in dpkg's database or its
# lists.
expect_purged() {
    # shellcheck disable=SC2086 # the list is meant to be split
    present=$(dpkg-query --show --showformat '${db:Status-Abbrev} ${Package}\n' $ours 2>/dev/null | sed -n 's/^[^u]. *//p')
    # shellcheck disable=SC2086
    apt purge $present
    # shellcheck disable=SC2086
    left=$(dpkg-query --show --showformat '${Package} ${db:Status-Abbrev}\n' $ours 2>/dev/null | grep -v ' un ' || true)
    [ -z "$left" ] || fail "purged packages are still known: $left"
    left=$(remains)
    [ -z "$left" ] || fail "purged packages leave files: $left"
    echo "purged $1: nothing remains"
}

expect_installed() {
    for package in $ours; do
        case $(dpkg-query --show --showformat '${db:Status-Abbrev}${Version}' "$package") in
        "ii $version"-*) ;;
        *) fail "$package is not installed in version $version" ;;
        esac
    done
    left=$(dpkg --audit)
    [ -z "$left" ] || fail "dpkg --audit: $left"
    # shellcheck disable=SC2086
    dpkg --verify $ours || fail "installed files differ from the packages"
}

build_project() {
    if ! cmake -S "$1" -B "$2" >/test/cmake.log 2>&1 || ! cmake --build "$2" >>/test/cmake.log 2>&1; then
        fail "building $1: $(cat /test/cmake.log)"
    fi
}

build_examples() {
    for topic in 01-connection 05-flush-to-persistent; do
        build_project "$2/$topic" "$1/examples/$topic"
    done
}

# The client writes into the server's file and flushes it; the runner reads the file again.
run_examples() {
    "$examples/run" --build "$1" --transport softrdma --format tap 01 05 >/test/run.log 2>&1 ||
        fail "running the examples: $(cat /test/run.log)"
    grep -q '^ok .*05-flush-to-persistent' /test/run.log || fail "example 05 is not reported: $(cat /test/run.log)"
    grep -q 'durable' /test/run.log || fail "example 05 does not report durable data: $(cat /test/run.log)"
}

build_consumers() {
    found=$(pkg-config --modversion librpma)
    [ "$found" = "$version" ] || fail "pkg-config finds librpma $found"
    # shellcheck disable=SC2046 # flags are meant to be split
    cc /test/consumer/consumer.c -o /test/shared $(pkg-config --cflags --libs librpma)
    # shellcheck disable=SC2046
    cc /test/consumer/consumer.c -o /test/archive $(pkg-config --cflags librpma) \
        -Wl,--push-state,-Bstatic $(pkg-config --libs-only-L --libs-only-l librpma | sed 's/-lrpma/& -Wl,--pop-state/')
    ! ldd /test/archive | grep -q librpma || fail "the program with the static library needs the shared one"
    build_project /test/consumer /test/consumer-build
    for program in /test/shared /test/archive /test/consumer-build/consumer_cpp; do
        $program >/test/consumer.log || fail "$program: $(cat /test/consumer.log)"
    done
}

# Runs debian/tests as the distribution would, on this system.
run_autopkgtest() {
    status=0
    autopkgtest --no-built-binaries /test/source -- null >/test/autopkgtest.log 2>&1 || status=$?
    [ "$status" -eq 0 ] || fail "autopkgtest: exit status $status: $(tail -n 40 /test/autopkgtest.log)"
    for name in flush languages; do
        grep -q "^$name  *PASS" /test/autopkgtest.log || fail "autopkgtest does not report $name: $(tail -n 40 /test/autopkgtest.log)"
    done
}

# rpma-doctor finds softrdma in its own directory, and the suite its list of known deviations.
use_tools() {
    rpma-doctor >/test/doctor.log 2>&1 || fail "rpma-doctor: $(cat /test/doctor.log)"
    grep -q '^ready: .*softrdma' /test/doctor.log || fail "rpma-doctor is not ready: $(cat /test/doctor.log)"
    rpmemd --version 2>&1 | grep -q '^rpmemd ' || fail "rpmemd does not start"
    rpma-bench --help >/test/bench.log || fail "rpma-bench does not start"
    rpma-mirror --version | grep -q '^rpma-mirror ' || fail "rpma-mirror does not start"
    nbdkit --dump-plugin rpma-mirror | grep -q '^name=rpma-mirror$' || fail "nbdkit cannot load its plugin"
    [ ! -e /etc/systemd/system/multi-user.target.wants/rpmemd.service ] || fail "rpmemd is started before it was configured"
    rpma-conformance --list --deviations librpma-1.2.0 >/test/cases.log || fail "rpma-conformance lists no cases"
    softrdma run -- rpma-conformance --filter 'flush.*' --format tap >/test/flush.log 2>&1 ||
        fail "rpma-conformance: $(cat /test/flush.log)"
    grep -q "^# library: .*/librpma.so.0" /test/flush.log || fail "no library was tested: $(cat /test/flush.log)"
}

[ -z "$(remains)" ] || fail "this Debian is not clean: $(remains)"

apt install --no-install-recommends /packages/*.deb
expect_installed
for page in librpma.7 rpma_flush.3 librpmem.7 rpmem_persist.3 rpma-bench.1 rpma-conformance.1 rpma-ddio.1 rpma-doctor.1 rpma-mirror.1 \
    nbdkit-rpma-mirror-plugin.1 rpmemd.1 rpmem-doctor.1 rpmem-ssh.1 softrdma.1; do
    gzip -t "/usr/share/man/man${page##*.}/$page.gz" || fail "manual page $page not found"
done
use_tools
build_consumers
build_examples /test/new "$examples"
run_examples /test/new
run_autopkgtest
cp -r "$examples" /test/examples
echo "installed $version: programs built through pkg-config, CMake and with the static library run, also in C++ and Python"
expect_purged "$version"
apt autoremove --purge

# PMDK uses remote replicas, so it must be installable beside these packages, before and after them.
apt install --no-install-recommends librpma-dev libibverbs-dev librdmacm-dev pmdk-tools
old=$(dpkg-query --show --showformat '${Version}' librpma0)
build_examples /test/old /test/examples
apt install --no-install-recommends /packages/*.deb
expect_installed
run_examples /test/old
echo "upgraded from $old: programs built with it run unchanged"
apt install --no-install-recommends --reinstall pmdk-tools
expect_installed

# The downgrade of docs/upgrade.md.
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
apt install --allow-downgrades "librpma0/$suite" "librpma-dev/$suite"
now=$(dpkg-query --show --showformat '${Version}' librpma0)
[ "$now" = "$old" ] || fail "librpma0 has version $now after the downgrade, not $old"
left=$(dpkg --audit)
[ -z "$left" ] || fail "dpkg --audit after the downgrade: $left"
examples=/test/examples
run_examples /test/old
echo "downgraded to $old: the programs run"
expect_purged "$version after $old"
