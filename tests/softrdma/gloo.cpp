// SPDX-License-Identifier: BSD-3-Clause
// usage: gloo DIRECTORY RANK RANKS: ranks that find each other by files in the directory add up vectors of different
// lengths over Gloo's transport for verbs, and check the sums.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <gloo/allreduce_ring.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>
#include <unistd.h>
#include <vector>

int main(int argc, char **argv)
try {
    if (argc != 4)
        return 2;
    const int rank = atoi(argv[2]);
    const int ranks = atoi(argv[3]);
    gloo::transport::ibverbs::attr where{"softrdma0", 1, 0};
    auto device = gloo::transport::ibverbs::CreateDevice(where);
    gloo::rendezvous::FileStore store(argv[1]);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    context->connectFullMesh(store, device);
    for (const int length : {1, 1000, 1 << 20}) {
        auto &values = *new std::vector<std::uint64_t>(static_cast<std::size_t>(length));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = i * static_cast<std::uint64_t>(rank + 1);
        // The algorithm ends with a message that it does not wait for. It must not be destroyed before this message has
        // been sent.
        auto *const sum = new gloo::AllreduceRing<std::uint64_t>(context, {values.data()}, length);
        sum->run();
        const auto all = static_cast<std::uint64_t>(ranks * (ranks + 1) / 2);
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (values[i] != i * all) {
                fprintf(stderr, "gloo: %zu of %d values is wrong\n", i, length);
                return 1;
            }
        }
    }
    (new gloo::BarrierAllToAll(context))->run();
    printf("rank %d has the sums\n", rank);
    fflush(stdout);
    _exit(0);
} catch (const std::exception &e) {
    fprintf(stderr, "gloo: %s\n", e.what());
    return 1;
}
