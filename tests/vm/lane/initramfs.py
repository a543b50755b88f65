# SPDX-License-Identifier: BSD-3-Clause
"""Initramfs of the kernel: a static busybox, the required modules, and the script that mounts the root."""

import pathlib
import shutil

from lane import SOURCE, LaneFailed
from lane.cache import key_of, provide
from lane.debian import inside, run_quietly

INIT = SOURCE / "tests" / "vm" / "guest" / "init"
MODULES = (
    "virtio_pci virtio_blk virtio_rng virtio_console 9pnet_virtio 9p overlay crc32_generic crc32_pclmul "
    "virtio_net dummy veth sch_netem sch_ingress cls_u32 act_gact rdma_rxe rdma_ucm ib_uverbs nfit nd_pmem dax_pmem device_dax ext4"
).split()
# Decompresses the modules on the host, which is faster than under emulation.
COLLECT = """
version=$(ls /kernel/lib/modules)
for module in {modules}; do
    modprobe --config /dev/null --dirname /kernel --set-version "$version" --show-depends "$module" 2>/dev/null || true
done | sed -n 's/^insmod //p' | awk '!seen[$1]++ {{ print $1 }}' >/initramfs/paths
mkdir /initramfs/tree/bin /initramfs/tree/modules
while read -r path; do
    name=$(basename "$path" .xz)
    case $path in
    *.xz) xz -dc "$path" ;;
    *) cat "$path" ;;
    esac >"/initramfs/tree/modules/$name"
    echo "$name" >>/initramfs/tree/modules/order
done </initramfs/paths
cp /usr/bin/busybox /initramfs/tree/bin/busybox
chmod 755 /initramfs/tree/init
cd /initramfs/tree
find . | cpio --quiet -o -H newc -R 0:0 >/initramfs/image
rm -r /initramfs/tree
"""


def script() -> str:
    return COLLECT.format(modules=" ".join(MODULES))


def path(cache: pathlib.Path, kernel: pathlib.Path) -> pathlib.Path:
    return cache / f"initramfs-{key_of(kernel.name, INIT.read_bytes(), script())}" / "image"


def initramfs(cache: pathlib.Path, system: pathlib.Path, kernel: pathlib.Path) -> pathlib.Path:
    def make(directory: pathlib.Path) -> None:
        (directory / "tree").mkdir()
        shutil.copyfile(INIT, directory / "tree" / "init")
        run_quietly(inside(system, {"kernel": kernel, "initramfs": directory}, script()), "building the initramfs")
        if "rdma_rxe" not in (directory / "paths").read_text():
            raise LaneFailed(f"the kernel in {kernel} lacks rdma_rxe (choose another --kernel)")

    image = path(cache, kernel)
    provide(image.parent, make)
    return image
