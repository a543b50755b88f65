// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include "api/sides.hpp"
#include "aof.hpp"
#include "failure.hpp"
#include "lane.hpp"

// Workloads post the work requests of an operation and detect its completion. Template over the connection of an API.
// An operation has a slot, a number below the depth. collect() returns the slot that a completion finishes, or none.
namespace bench::workloads
{

constexpr std::uint32_t none = UINT32_MAX;

template<class Connection>
class base
{
public:
    base(Connection &connection, bench::lane &share, const parameters &p)
        : connection_(connection), lane_(share), persistent_(p.flush == flush_kind::persistent),
          flushes_(p.flush != flush_kind::none), interval_(p.flush_interval)
    {
    }
    void prepare(std::uint32_t) {}
    std::uint32_t collect(const ibv_wc &wc) { return static_cast<std::uint32_t>(wc.wr_id); }
    // Number of operations that a completed slot counts as.
    std::uint32_t weight() const { return 1; }

protected:
    void flush(std::size_t at, std::size_t len, signal when, std::uint64_t context)
    {
        connection_.flush(at, len, persistent_, when, context);
    }

    Connection &connection_;
    bench::lane &lane_;
    bool persistent_, flushes_;
    std::uint32_t interval_;
};

template<class Connection>
class read : public base<Connection>
{
public:
    using base<Connection>::base;
    void post(std::uint32_t slot)
    {
        const std::size_t at = this->lane_.next_read();
        this->connection_.read(at, at, this->lane_.block(), slot);
    }
};

template<class Connection>
class write_flush : public base<Connection>
{
public:
    using base<Connection>::base;
    void post(std::uint32_t slot)
    {
        std::size_t at = 0;
        for (std::uint32_t i = 0; i < this->interval_; ++i) {
            at = this->lane_.next_write();
            this->connection_.write(at, at, this->lane_.block(), signal::on_error, slot);
        }
        if (this->interval_ == 1)
            this->flush(at, this->lane_.block(), signal::always, slot);
        else
            this->flush(this->lane_.base(), this->lane_.slice(), signal::always, slot);
    }
    std::uint32_t weight() const { return this->interval_; }
};

template<class Connection>
class atomic_write : public base<Connection>
{
public:
    using base<Connection>::base;
    void post(std::uint32_t slot)
    {
        const std::size_t at = this->lane_.next_write();
        char value[8];
        std::memcpy(value, this->lane_.content(at), sizeof value);
        if (!this->flushes_) {
            this->connection_.atomic_write(at, value, signal::always, slot);
            return;
        }
        this->connection_.atomic_write(at, value, signal::on_error, slot);
        this->flush(at, sizeof value, signal::always, slot);
    }
};

// Writes a record, then the length of the log at its head. Each is durable before the next step.
template<class Connection>
class log_append : public base<Connection>
{
public:
    using base<Connection>::base;
    void post(std::uint32_t slot)
    {
        const std::size_t at = this->lane_.next_write();
        this->connection_.write(at, at, this->lane_.block(), signal::on_error, slot);
        this->flush(at, this->lane_.block(), signal::on_error, slot);
        appended_ += this->lane_.block();
        char head[8];
        std::memcpy(head, &appended_, sizeof head);
        this->connection_.atomic_write(this->lane_.base(), head, signal::on_error, slot);
        this->flush(this->lane_.base(), sizeof head, signal::always, slot);
        this->lane_.set_head(appended_);
    }

private:
    std::uint64_t appended_ = 0;
};

template<class Connection>
class mix : public base<Connection>
{
public:
    static constexpr bool has_halves = true;
    mix(Connection &connection, bench::lane &share, const parameters &p)
        : base<Connection>(connection, share, p), reads_(p.depth)
    {
    }
    void post(std::uint32_t slot)
    {
        reads_[slot] = this->lane_.is_read_next();
        if (reads_[slot] != 0) {
            const std::size_t at = this->lane_.next_read();
            this->connection_.read(at, at, this->lane_.block(), slot);
            return;
        }
        const std::size_t at = this->lane_.next_write();
        this->connection_.write(at, at, this->lane_.block(), signal::on_error, slot);
        this->flush(at, this->lane_.block(), signal::always, slot);
    }
    bool is_read(std::uint32_t slot) const { return reads_[slot] != 0; }

private:
    std::vector<std::uint8_t> reads_;
};

// Operations that end with a response of the server, which contains the slot and can arrive before the completion.
template<class Connection>
class request_response : public base<Connection>
{
public:
    request_response(Connection &connection, bench::lane &share, const parameters &p)
        : base<Connection>(connection, share, p), outstanding_(p.depth)
    {
    }
    void prepare(std::uint32_t depth)
    {
        for (std::uint32_t i = 0; i < depth; ++i)
            receive(i);
    }

protected:
    void receive(std::uint32_t buffer)
    {
        this->connection_.receive(this->lane_.receive_slot(buffer), this->lane_.slot_size(), receive_mark | buffer);
    }
    void expect_both(std::uint32_t slot) { outstanding_[slot] = 2; }
    std::uint32_t finish_one(std::uint32_t slot)
    {
        if (slot >= outstanding_.size() || outstanding_[slot] == 0) [[unlikely]]
            throw failure("unexpected response of the server");
        return --outstanding_[slot] == 0 ? slot : none;
    }

    std::vector<std::uint8_t> outstanding_;
};

template<class Connection>
class gpspm : public request_response<Connection>
{
public:
    using request_response<Connection>::request_response;
    void post(std::uint32_t slot)
    {
        const std::size_t at = this->write_block(slot);
        const std::size_t message = this->lane_.send_slot(slot);
        gpspm_wire::encode_request(this->lane_.message(message), {at, this->lane_.block(), slot});
        this->connection_.send(message, gpspm_wire::request_size, slot);
    }
    std::uint32_t collect(const ibv_wc &wc)
    {
        if ((wc.wr_id & receive_mark) == 0)
            return this->finish_one(static_cast<std::uint32_t>(wc.wr_id));
        const auto buffer = static_cast<std::uint32_t>(wc.wr_id);
        const std::uint64_t slot = gpspm_wire::decode_response(this->lane_.message(this->lane_.receive_slot(buffer)));
        this->receive(buffer);
        return this->finish_one(static_cast<std::uint32_t>(slot));
    }

protected:
    std::size_t write_block(std::uint32_t slot)
    {
        const std::size_t at = this->lane_.next_write();
        this->expect_both(slot);
        this->connection_.write(at, at, this->lane_.block(), signal::on_error, slot);
        return at;
    }
};

// Like gpspm, but the server then also stores and persists a pointer to the end of the persisted data.
template<class Connection>
class aof : public gpspm<Connection>
{
public:
    using gpspm<Connection>::gpspm;
    void post(std::uint32_t slot)
    {
        const std::size_t at = this->write_block(slot);
        const std::size_t message = this->lane_.send_slot(slot);
        aof_wire::encode_request(this->lane_.message(message), {at, this->lane_.block(), this->lane_.base(), slot});
        this->connection_.send(message, aof_wire::request_size, slot);
        this->lane_.set_head(at + this->lane_.block());
    }
};

// The response is the message itself. Its first words are the slot and a number that never repeats.
template<class Connection>
class send_recv : public request_response<Connection>
{
public:
    using request_response<Connection>::request_response;
    void post(std::uint32_t slot)
    {
        const std::size_t message = this->lane_.send_slot(slot);
        const std::uint64_t words[] = {slot, ++sent_};
        std::memcpy(this->lane_.message(message), words, sizeof words);
        this->expect_both(slot);
        this->connection_.send(message, this->lane_.slot_size(), slot);
    }
    std::uint32_t collect(const ibv_wc &wc)
    {
        if ((wc.wr_id & receive_mark) == 0)
            return this->finish_one(static_cast<std::uint32_t>(wc.wr_id));
        const auto buffer = static_cast<std::uint32_t>(wc.wr_id);
        const std::byte *const response = this->lane_.message(this->lane_.receive_slot(buffer));
        std::uint64_t slot;
        std::memcpy(&slot, response, sizeof slot);
        const std::size_t compared = std::min<std::size_t>(this->lane_.slot_size(), 64);
        if (slot >= this->outstanding_.size() ||
                std::memcmp(response, this->lane_.message(this->lane_.send_slot(static_cast<std::uint32_t>(slot))),
                        compared) != 0) [[unlikely]]
            throw failure("message corrupted: the response differs from the request");
        this->receive(buffer);
        return this->finish_one(static_cast<std::uint32_t>(slot));
    }

private:
    std::uint64_t sent_ = 0;
};

// The server's response is an empty message with the same number, which is the slot.
template<class Connection>
class write_with_imm : public request_response<Connection>
{
public:
    using request_response<Connection>::request_response;
    void post(std::uint32_t slot)
    {
        const std::size_t at = this->lane_.next_write();
        this->expect_both(slot);
        this->connection_.write_with_imm(at, at, this->lane_.block(), slot, slot);
    }
    std::uint32_t collect(const ibv_wc &wc)
    {
        if ((wc.wr_id & receive_mark) == 0)
            return this->finish_one(static_cast<std::uint32_t>(wc.wr_id));
        this->receive(static_cast<std::uint32_t>(wc.wr_id));
        return this->finish_one(ntohl(wc.imm_data));
    }
};

} // namespace bench::workloads
