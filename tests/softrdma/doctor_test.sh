#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: doctor_test.sh SOFTRDMA PROGRAM-WITH-LIBIBVERBS PROGRAM-WITH-DLOPEN
# The verdict of `softrdma doctor` on programs of each kind.
softrdma=$1 linked=$2 opening=$3
. "$(dirname "$0")/script_lib.sh"
make_work
chmod 755 "$work"

# expect CODE PATTERN PROGRAM...: exit code and one line that matches
expect() {
    code=$1 pattern=$2
    shift 2
    "$softrdma" doctor "$@" >"$work/out" 2>&1
    got=$?
    if [ $got -ne "$code" ] || [ "$(wc -l <"$work/out")" -ne 1 ] || ! grep -q -e "$pattern" "$work/out"; then
        fail "doctor $*: exit $got, expected $code and '$pattern':" "$work/out"
    fi
}

# build NAME SOURCE [OPTION...]
build() {
    name=$1
    echo "$2" >"$work/$name.c"
    shift 2
    cc -o "$work/$name" "$work/$name.c" "$@" 2>"$work/out" || { echo "not tested: cc cannot build '$name'"; return 1; }
}

expect 0 'usable: links libibverbs.so.1 (softrdma run -- ' "$linked"
expect 0 'usable: calls dlopen for libibverbs.so in ' "$opening"
expect 2 'one program'
expect 2 'one program' true false
expect 1 'not executable: No such file or directory' "$work/absent"
expect 1 'not executable: No such file or directory' no-such-program-in-path
expect 1 'not executable: Is a directory' "$work"
echo text >"$work/plain"
expect 1 'not executable: Permission denied' "$work/plain"
chmod +x "$work/plain"
expect 1 'neither an ELF program nor a script' "$work/plain"
ln -s "$linked" "$work/interpreter" # "#!" cannot name a path with a blank
printf '#!%s\n' "$work/interpreter" >"$work/script"
printf '#!/usr/bin/env -S A=1 sh\n' >"$work/env_script"
chmod +x "$work/script" "$work/env_script"
expect 0 'script: usable: links libibverbs.so.1' "$work/script"
expect 0 'usable: script of .*/sh, which can load' "$work/env_script"

if build none 'int main(void) { return 0; }'; then
    expect 1 'no RDMA: neither the program nor its libraries' "$work/none"
fi
echo 'int ibv_fork_init(void); int f(void); int f(void) { return ibv_fork_init(); }' >"$work/f.c"
if cc -shared -fPIC -o "$work/libf.so" "$work/f.c" -libverbs &&
    build through 'int f(void); int main(void) { return f(); }' -L"$work" -lf -Wl,-rpath,"$work"; then
    expect 0 "usable: links libibverbs.so.1 through $work/libf.so" "$work/through"
    rm "$work/libf.so"
    expect 1 'not usable: library libf.so not found (install it)' "$work/through"
fi
if build contains 'int ibv_fork_init(void); int main(void) { return ibv_fork_init(); }' -Wl,-Bstatic -libverbs -Wl,-Bdynamic \
    -lnl-route-3 -lnl-3; then
    expect 1 "not usable: contains a static libibverbs in $work/contains" "$work/contains"
fi
if build static 'int main(void) { return 0; }' -static; then
    expect 1 'not usable: is linked statically (link it dynamically)' "$work/static"
fi
cp "$linked" "$work/foreign"
printf '\001\001' | dd of="$work/foreign" bs=1 seek=18 conv=notrunc 2>/dev/null # e_machine
expect 1 'not usable: is a program of another architecture' "$work/foreign"
if [ "$(id -u)" -eq 0 ]; then
    cp "$linked" "$work/other_user"
    chown 65534 "$work/other_user"
    chmod u+s "$work/other_user"
    expect 1 'not usable: changes its user or group' "$work/other_user"
    if cp /bin/true "$work/capable" && setcap cap_net_raw+ep "$work/capable" 2>/dev/null; then
        setpriv --reuid 65534 --clear-groups "$softrdma" doctor "$work/capable" >"$work/out"
        grep -q 'not usable: has file capabilities' "$work/out" || fail "doctor of a program with file capabilities:" "$work/out"
    fi
fi
exit $((failures > 0))
