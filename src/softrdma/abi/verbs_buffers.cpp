// SPDX-License-Identifier: BSD-3-Clause
// Buffers for programs (rdma-core 64): ordinary memory.
#include "abi/device.hpp"

#include <new>
#include <sys/mman.h>

using softrdma::abi::fail_with;

namespace
{

struct buffer {
    ibv_pd *pd;
    std::byte *start;
    std::size_t size;
};

} // namespace

// Newer headers declare them with types that this source cannot name.
extern "C" void *alloc_buffer(ibv_pd *, std::size_t, buffer **) __asm__("ibv_alloc_buf");
extern "C" void free_buffer(buffer *) __asm__("ibv_free_buf");
extern "C" ibv_mr *register_buffer(ibv_pd *, const buffer *, void *, std::size_t, int) __asm__("ibv_reg_buf_mr");
extern "C" int export_buffer(buffer *) __asm__("ibv_export_buf_dmabuf_fd");

extern "C" void *alloc_buffer(ibv_pd *pd, std::size_t size, buffer **out)
{
    void *const start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return nullptr;
    *out = new (std::nothrow) buffer{pd, static_cast<std::byte *>(start), size};
    if (*out != nullptr)
        return start;
    munmap(start, size);
    return fail_with(nullptr, ENOMEM);
}

extern "C" void free_buffer(buffer *of)
{
    munmap(of->start, of->size);
    delete of;
}

extern "C" ibv_mr *register_buffer(ibv_pd *pd, const buffer *of, void *start, std::size_t length, int access)
{
    const auto *const first = static_cast<std::byte *>(start);
    const auto offset = static_cast<std::size_t>(first - of->start);
    if (pd != of->pd || first < of->start || offset > of->size || length > of->size - offset)
        return fail_with(nullptr, EINVAL);
    return ibv_reg_mr_iova2(pd, start, length, reinterpret_cast<std::uintptr_t>(start), static_cast<unsigned>(access));
}

extern "C" int export_buffer(buffer *)
{
    return fail_with(-1, ENODATA);
}
