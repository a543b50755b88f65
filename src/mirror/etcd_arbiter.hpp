// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

#include "arbiter.hpp"
#include "etcd_client.hpp"
#include "fd_owner.hpp"

namespace mirror
{

// A cluster of etcd v3. Below a prefix and the uuid of the set are three keys: `record`, the record that was committed
// last; `epoch`, the highest epoch that was given; and `writer`, who may write, which is there as long as the lease of
// that writer. They are changed in transactions that compare their revisions.
class etcd_arbiter : public arbiter
{
public:
    // The words after "etcd". Throws failure with E_INVAL.
    explicit etcd_arbiter(const std::string &words);

    record newest(const replica::set_uuid &set, bool seize, const replica::deadline &until) override;
    promise take(const promise &wanted, bool seize, record &known, const replica::deadline &until) override;
    void commit(const record &next, const replica::deadline &until) override;
    void renew(const replica::deadline &until) override;
    int renew_ms() const override { return ttl_s_ * 1000 / 3; }
    bool lost() const noexcept override { return replica::now_ms() >= valid_until_ms_; }
    int lost_fd() const noexcept override { return expiry_.get(); }
    void release(const replica::deadline &until) noexcept override;

private:
    struct seen_key {
        std::string revision = "0"; // 0: it is not there
        std::string value;
    };

    std::string key(const char *name) const { return to_base64(place_ + name); }
    seen_key look(etcd_client &with, const char *name, const replica::deadline &until) const;
    void connect(const replica::set_uuid &set);
    void refuse_busy(const seen_key &writer) const;
    void grant(const replica::deadline &until);
    bool try_take(const promise &wanted, bool seize, record &known, promise &given, const replica::deadline &until);
    void holds_from(std::int64_t asked_at_ms);

    etcd_settings settings_;
    std::string prefix_ = "/rpma/mirror/";
    int ttl_s_ = 10;
    // One for those who call under the lock of the membership, one for renewing.
    std::unique_ptr<etcd_client> client_, renewing_;
    std::string place_;
    std::string lease_;           // empty: none
    std::string writer_revision_; // of the key that says that this writer may write
    std::atomic<std::int64_t> valid_until_ms_ = INT64_MAX;
    replica::fd_owner expiry_; // a timer
};

} // namespace mirror
