#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: launcher_test.sh SOFTRDMA
softrdma=$1
. "$(dirname "$0")/script_lib.sh"
make_work

# expect CODE LINES-ON-STDERR COMMAND...
expect() {
    code=$1 lines=$2
    shift 2
    "$@" >"$work/out" 2>"$work/err"
    got=$?
    if [ $got -ne "$code" ] || [ "$(wc -l <"$work/err")" -ne "$lines" ]; then
        fail "$*: exit $got, expected $code; stderr:" "$work/err"
    fi
}

expect_output() {
    grep -q -e "$1" "$work/out" || fail "no \"$1\" in the output:" "$work/out"
}

expect 0 0 "$softrdma" --help
expect_output 'softrdma run'
expect 0 0 "$softrdma" --version
expect_output '^softrdma [0-9]'
expect 2 1 "$softrdma"
expect 2 1 "$softrdma" walk
expect 2 1 "$softrdma" --no-such-option
expect 2 1 "$softrdma" run
expect 2 1 "$softrdma" run --
expect 2 1 "$softrdma" run --no-such-option true
expect 127 1 "$softrdma" run "$work/absent"
# A misspelled variable is reported, and the program runs.
expect 0 1 env SOFTRDMA_TRANSPROT=tcp "$softrdma" run true
cp "$work/err" "$work/out"
expect_output '^softrdma: SOFTRDMA_TRANSPROT: unknown variable: ignored'
expect 0 2 env SOFTRDMA_TRANSPROT=tcp SOFTRDMA_=1 SOFTRDMA=/bin/softrdma SOFTRDMA_TRANSPORT=tcp "$softrdma" info
touch "$work/plain"
expect 126 1 "$softrdma" run "$work/plain"
expect 0 0 "$softrdma" run true
expect 3 0 "$softrdma" run -- sh -c 'exit 3'
expect 0 0 "$softrdma" run -- echo -n --help
expect_output '--help'

# The dynamic linker splits LD_PRELOAD at blanks. Where the path of the device contains one, only its name is preloaded.
case $softrdma in *' '*) folder='' dropin='' ld_so_lines=1 ;; *) folder='/.*/' dropin='/.*/dropin/' ld_so_lines=0 ;; esac
expect 0 0 "$softrdma" run sh -c 'echo "$LD_PRELOAD"'
expect_output "^${folder}libsoftrdma.so$"

# The device works in a directory whose name contains a blank. It is rejected if its path contains a separator of the
# dynamic linker.
library=$("$softrdma" run sed -n 's|^[^/]*\(/.*/libsoftrdma[^/]*\)$|\1|p;T;q' /proc/self/maps)
for directory in "$work/my device" "$work/my:device"; do
    mkdir -p "$directory/bin" "$directory/lib"
    cp "$softrdma" "$directory/bin/softrdma"
    ln -s "$library" "$directory/lib/libsoftrdma.so"
done
expect 0 0 "$work/my device/bin/softrdma" run grep -m 1 libsoftrdma /proc/self/maps
expect_output 'libsoftrdma'
expect 1 1 "$work/my:device/bin/softrdma" run true

# The launcher prints one line, and still runs the program.
echo 'int main(void) { return 7; }' >"$work/static.c"
if cc -static -o "$work/static" "$work/static.c" 2>"$work/out"; then
    expect 7 1 "$softrdma" run "$work/static"
else
    echo "not tested: cc makes no static program"
fi
if [ "$(id -u)" -eq 0 ]; then
    cp /bin/true "$work/other_user"
    chown 65534 "$work/other_user"
    chmod u+s "$work/other_user"
    expect 0 $((1 + ld_so_lines)) "$softrdma" run "$work/other_user"
fi

if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
    expect 1 1 unshare -m sh -c 'mount -t tmpfs none /proc && exec "$0" run true' "$softrdma"
    grep -q /proc/self/exe "$work/err" || fail "the missing /proc is not named"
fi

expect 1 1 sh -c 'ulimit -v 11000 && exec "$0" info' "$softrdma"

LD_PRELOAD=libc.so.6
export LD_PRELOAD
expect 0 0 "$softrdma" run sh -c 'echo "$LD_PRELOAD"'
expect_output "^${folder}libsoftrdma.so:libc.so.6$"
expect 0 0 "$softrdma" run "$softrdma" run --dropin sh -c 'echo "$LD_PRELOAD"'
expect_output "^${dropin}libibverbs.so.1:libc.so.6$"
expect 0 0 "$softrdma" run --dropin "$softrdma" run sh -c 'echo "$LD_PRELOAD"'
expect_output "^${folder}libsoftrdma.so:libc.so.6$"
exit $((failures > 0))
