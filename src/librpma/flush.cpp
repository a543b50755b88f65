// SPDX-License-Identifier: BSD-3-Clause
#include "flush.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "log.hpp"
#include "rdma/work_request.hpp"

namespace rpma
{

namespace
{

constexpr std::size_t target_size = 8;

} // namespace

errc flush::page::map()
{
    const long page_size = sysconf(_SC_PAGESIZE);
    if (page_size < 0) {
        RPMA_LOG(RPMA_LOG_LEVEL_FATAL, "sysconf(_SC_PAGESIZE) failed: %s\n", log::errno_text(errno).c_str());
        return errc::provider;
    }
    size_ = static_cast<std::size_t>(page_size);
    void *const mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return errc::nomem;
    address_ = mapped;
    return errc::ok;
}

errc flush::page::close()
{
    void *const mapped = std::exchange(address_, nullptr);
    if (mapped == nullptr || munmap(mapped, size_) == 0)
        return errc::ok;
    RPMA_LOG_ERROR("munmap() failed: %s\n", log::errno_text(errno).c_str());
    return errc::inval;
}

result<flush> flush::create(const rpma_peer &peer, ibv_qp *qp, std::uint64_t native_ops)
{
    flush created;
    if ((native_ops & rdma::send_op_flush) != 0) {
        ibv_qp_ex *const qpx = rdma::extended(qp);
        if (qpx != nullptr && rdma::wr_flush_of(qpx) != nullptr) {
            created.native_ = qpx;
            return created;
        }
    }
    RPMA_RETURN_IF_ERROR(created.create_target(peer));
    return created;
}

errc flush::create_target(const rpma_peer &peer)
{
    RPMA_RETURN_IF_ERROR(page_.map());
    RPMA_ASSIGN_OR_RETURN(auto registered, peer.register_memory(page_.address(), target_size, RPMA_MR_USAGE_READ_DST));
    mr_ = std::move(registered.mr);
    target_ = reinterpret_cast<std::uintptr_t>(page_.address());
    target_lkey_ = mr_->lkey;
    return errc::ok;
}

errc flush::close()
{
    first_error failures;
    failures.add(mr_.close());
    failures.add(page_.close());
    return failures.finish();
}

} // namespace rpma
