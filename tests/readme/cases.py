# SPDX-License-Identifier: BSD-3-Clause
"""Conditions of each command block: preparation, concurrent commands, and the output that proves the promised effect. Document
and first line identify a block. A block that is not listed fails the test."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Case:
    document: str
    first_line: str
    expected: Sequence[str] = ()  # regular expressions that the output must match
    before: str = ""  # script that prepares what the document assumes
    beside: str = ""  # script that runs at the same time; terminated after the block
    after: str = ""
    root: bool = False  # needs root, which the document must state
    network: bool = False  # fetches packages; other blocks run without Internet access
    status: int = 0  # exit status of the last command
    on_device: bool = False  # requires RDMA hardware, which softrdma replaces here
    typed: bool = False  # lines are entered one by one, because a line starts a background job
    prints_next: bool = False  # the output contains each line of the next block
    elsewhere: str = ""  # test that runs the block, and the reason why it does not run here


def case(document: str, first_line: str, *expected: str, **options) -> Case:
    return Case(document, first_line, expected, **options)


def readme(first_line: str, *expected: str, **options) -> Case:
    return case("README.md", first_line, *expected, **options)


def examples(first_line: str, *expected: str, **options) -> Case:
    return case("examples/README.md", first_line, *expected, **options)


def page(name: str, first_line: str, *expected: str, **options) -> Case:
    return case(f"man/{name}.md", first_line, *expected, **options)


HELLO_SERVER = "build/release/bin/softrdma run -- build/release/examples/01-connection/server 127.0.0.1 7204"
HELLO_CLIENT = "build/release/bin/softrdma run -- build/release/examples/01-connection/client 127.0.0.1 7204"
# The block of README.md about packages replaces the earlier installation. The packages must equal those that the lane
# has built in another directory, at another time, as another user.
UNINSTALL = "sudo xargs rm -f <build/release/install_manifest.txt; sudo ldconfig"
PACKAGES = """for package in ../*.deb; do
    cmp "$package" "/packages/$(basename "$package")" && echo "package unchanged: $(basename "$package")"
done"""
LOG_PROGRAMS = "cp build/release/examples/19-power-cut/server . && rm -f log.pmem && truncate -s 64K log.pmem"
LOG_CLIENT = "softrdma run build/release/examples/19-power-cut/client 127.0.0.1 7204 300 || true"
MPI_PROGRAM = r"""printf '#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) { int r, s; MPI_Init(&c, &v);
MPI_Comm_rank(MPI_COMM_WORLD, &r); s = r; MPI_Allreduce(MPI_IN_PLACE, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
if (r == 0) printf("sum %%d\\n", s); return MPI_Finalize(); }\n' >program.c && mpicc -o program program.c"""
# Busy machines sometimes allow no conclusion.
VERDICT = r"(?m)^(No conclusion|latency_p50): "
BENCH_SERVER = "rpma-bench server --address 192.0.2.1 --target /mnt/pmem \\"
BENCH_CLIENT = "rpma-bench client 192.0.2.1 --workload write_flush,gpspm \\"
# Both ends of a replica. Files that the document shows are extracted from it.
SET = "printf 'PMEMPOOLSET\\n32M /dev/shm/pool.part0\\n' >~/pool.set; chmod 600 ~/pool.set"
# The account of this test is `user`, and `host` is a name of this system.
LOG_IN = """[ -e ~/.ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519
cp ~/.ssh/id_ed25519.pub ~/.ssh/authorized_keys
echo 'StrictHostKeyChecking no' >~/.ssh/config
sudo mkdir -p /run/sshd && sudo /usr/sbin/sshd"""

# A target on this machine, and the set of rpma-mirror(1), which is created once.
MIRROR = r"""sudo install -d -o user /etc/rpma && mkdir -p ~/targets
[ -e /etc/rpma/key ] || (umask 077; echo "writer:$(openssl rand -hex 32)" >/etc/rpma/key)
printf 'PMEMPOOLSET\nOPTION NOHDRS\n64M %s/targets/log.part\n' ~ >~/targets/log.set && chmod 600 ~/targets/log.set
rpmemd --listen 127.0.0.1:7470 --key-file /etc/rpma/key --poolset-dir ~/targets &
for i in $(seq 600); do grep -qi ':1D2E ' /proc/net/tcp && break; sleep 0.1; done
[ -e /etc/rpma/log.set ] || {
    printf 'RPMAMIRROR\nlocal 0 %s/log 16M\ntarget 1 127.0.0.1:7470 log.set\nkey-file /etc/rpma/key\n' ~ >/etc/rpma/log.set
    rpma-mirror create /etc/rpma/log.set
}"""
METRICS_DIRECTORY = "\nsudo install -d -o user /var/lib/prometheus/node-exporter"

# Cases in the order of execution.
CASES = (
    readme("utils/install-dependencies && cmake --preset release && examples/run 05", network=True, prints_next=True),
    readme("utils/install-dependencies --replica && cmake --preset release && examples/remote-replica/try",
           r"ok: nothing was lost", network=True),
    readme("modprobe rdma_rxe", elsewhere="vm.readme: it needs a kernel of its own"),
    readme("utils/install-dependencies --lanes && utils/test", elsewhere=".ci/run: it runs this command"),
    readme("utils/install-dependencies --man && cmake --preset release && cmake --build --preset release && "
           "cmake --install build/release", root=True, network=True,
           after="ls -l /usr/local/share/man/man3/rpma_flush.3 /usr/local/bin/rpma-conformance"),
    readme("cc program.c $(pkg-config --cflags --libs librpma)", before="cp tests/abi/consumer/consumer.c program.c",
           after="./a.out"),
    readme("softrdma run -- ./server 127.0.0.1 7204", r"Received a message: Hello client!",
           before="cp build/release/examples/01-connection/server .", beside=HELLO_CLIENT),
    readme("build/release/bin/rpma-bench local", r"\.html", after="ls *.html"),
    readme('build/release/bin/rpma-bench compare --against "$(utils/fetch-debian-librpma /tmp/debian-librpma)"',
           VERDICT, network=True),
    examples("cmake --preset release", r"(\d\d) of \1 examples succeeded"),
    examples(HELLO_SERVER, r"Received a message: Hello server!", r"Received a message: Hello client!", beside=HELLO_CLIENT),
    examples(HELLO_CLIENT, elsewhere="the block before it: client and server go together"),
    examples("cd examples/01-connection", after="./client --help && ./server --help; rm client server; cd ../01-connection; "
             "./client --help; rm client server"),
    examples("cmake -G Ninja -S examples/05-flush-to-persistent -B build/05", after="build/05/client --help && build/05/server --help"),
    readme("sudo apt-get build-dep ./ && dpkg-buildpackage -us -uc -b", r"package unchanged: librpma0_",
           r"package unchanged: softrdma_", r"package unchanged: python3-rpma_", before=UNINSTALL, after=PACKAGES, network=True),

    page("librpmem.7", "cc -o mirror mirror.c $(pkg-config --cflags --libs librpmem)", r"\|saved\.", before=SET),
    page("librpmem.7", "rpmem-doctor user@host pool.set", r"ready", before=f"{SET}\n{LOG_IN}",
         after="rpmemd --remove pool.set"),
    page("rpma-bench.1", "rpma-bench local --profile quick", elsewhere="README.md: it is the default"),
    page("rpma-bench.1", "rpma-bench compare --against verbs --workload read,write_flush", VERDICT),
        page("rpma-bench.1", "SOFTRDMA_TRANSPORT=shm build/release/bin/rpma-bench compare \\",
         VERDICT, network=True),
    page("rpma-bench.1", BENCH_SERVER, r"write_flush", on_device=True,
         before="sudo ip address add 192.0.2.1/32 dev lo", beside=f"{BENCH_CLIENT}\n--flush persistent --block-size 256,4K,64K"),
    page("rpma-bench.1", BENCH_CLIENT, elsewhere="the block before it: client and server go together"),
    page("rpma-bench.1", "rpma-bench campaign night.toml", elsewhere="bench.campaign: it needs a second machine"),
    page("rpma-bench.1", "rpma-bench sweep connections --workload write_flush", r"512"),
        page("rpma-conformance.1", "SOFTRDMA_CM_TIMEOUT_MS=2000 RPMA_TEST_QUICK_UNREACHABLE=1 \\",
         r" 0 deviate, "),
    page("rpma-conformance.1", "LD_LIBRARY_PATH=/opt/other/lib \\",
         r"# library: /opt/other/lib/librpma\.so\.0",
         before="sudo mkdir -p /opt/other/lib; sudo cp $(ldconfig -p | grep -o '/.*librpma.so.0') /opt/other/lib/",
         on_device=True),
    page("rpma-conformance.1", "apt-get download librpma0/bookworm", r" 0 deviate, ", network=True),
    page("rpma-conformance.1", "softrdma run -- rpma-conformance --filter 'flush.*'", r" 0 deviate, "),
    page("rpma-ddio.1", "ssh root@target rpma-ddio --device mlx5_0 off -- rpma-bench server \\",
         elsewhere="examples.ddio: it needs a processor of Intel"),
    page("rpma-doctor.1", "rpma-doctor | grep -A 1 ^fail", r"^fail"),
    page("rpmem-doctor.1", "rpmem-doctor local: pool.set", r"ready", before=SET),
    page("rpmem-ssh.1", "RPMEM_SSH=rpmem-ssh pmempool rm -r pool.set", elsewhere="rpmem.several_targets: it needs targets"),
    page("rpmemd.1", "mkdir -p /etc/rpmemd /var/lib/rpmemd", r"it listens", root=True, on_device=True,
         beside="for i in $(seq 100); do grep -qi ':1D2E ' /proc/net/tcp && echo 'it listens' && break; sleep 0.1; done"),
    page("rpmemd.1", "chown -R rpmemd: /etc/rpmemd/mirror.key /var/lib/rpmemd /mnt/pmem", elsewhere="not run: systemd does not run in a root"),
    page("rpma-mirror.1", "rpma-mirror resync /etc/rpma/log.set", r"in sync: 0 and 1", before=MIRROR),
    page("rpma-mirror.1", "rpma-mirror promote /etc/rpma/log.set", r"in sync: 0 and 1", before=MIRROR),
    page("rpma-mirror.1", "rpma-mirror read /etc/rpma/log.set /srv/backup/log", r"16777216", after="stat -c %s /srv/backup/log",
         before=MIRROR + "\nsudo install -d -o user /srv/backup"),
    page("rpma-mirror.1", "rpma-mirror grow /etc/rpma/log.set 64M", r"length: 67108864 bytes", before=MIRROR),
    page("rpma-mirror.1", "rpma-mirror status --json /etc/rpma/log.set", r'"in_sync": \[\s*0,\s*1\s*\]', before=MIRROR),
    page("rpma-mirror.1", "cd /var/lib/prometheus/node-exporter", r"(?m)^rpma_mirror_", before=MIRROR + METRICS_DIRECTORY,
         after="cat log.prom"),
    page("softrdma.1", "softrdma run rping -s -a 127.0.0.1 -C 10 -V &", typed=True),
    page("softrdma.1", "softrdma run ucx_perftest &", r"Final:", typed=True),
    page("softrdma.1", "UCX_TLS=ud softrdma run ucx_perftest &", r"Final:", typed=True),
    page("softrdma.1", "UCX_TLS=rc,ud,self mpirun --mca pml ucx -n 2 softrdma run ./program", r"sum 1", before=MPI_PROGRAM),
    page("softrdma.1", "softrdma run ibv_devinfo -v", r"hca_id:\s+softrdma0"),
    page("softrdma.1", "softrdma run rping -s -a 127.0.0.1 -C 3 &", r"RRoCE .*RC Send Only", typed=True),
    page("softrdma.1", "SOFTRDMA_FAULT='status=rem_access:op=write,nth=2' \\",
         r"status 10", typed=True),
    page("softrdma.1", "softrdma run rping -s -a 127.0.0.1 -C 3 &", r"rping", typed=True),
    page("softrdma.1", "SOFTRDMA_POWERCUT=after:100,seed:7 \\",
         before=LOG_PROGRAMS, beside=LOG_CLIENT, status=137),
    page("softrdma.1", "SOFTRDMA_POWERCUT=armed \\", before=LOG_PROGRAMS,
         typed=True),
)
