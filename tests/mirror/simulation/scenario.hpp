// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma_mirror.h>
#include <librpmem.h>

#include <optional>

#include "history.hpp"

namespace simulation
{

// Two machines that may write to a set, or to a pool of librpmem, one to three targets, and their faults. One seed
// determines everything.
class scenario
{
public:
    scenario(std::uint64_t seed, const std::string &place, bool is_pool, bool loud);
    ~scenario()
    {
        world_.end();
        keeper::instance = nullptr;
    }
    scenario(const scenario &) = delete;
    scenario &operator=(const scenario &) = delete;

    // Runs the scenario. Ends this process if a check fails.
    void run();
    std::string summary() const;
    std::uint64_t fingerprint() const { return world_.history(); }
    // Number of moments at which a power failure during a write was simulated and the remaining data was checked.
    std::uint64_t cuts() const { return history_.cuts; }

private:
    struct session;
    static constexpr unsigned writers = 2, lanes = 2;
    static constexpr unsigned other_copy = 5;
    // Length of a set that is compared in one batch, and of a set that is compared in several batches in flight.
    static constexpr std::uint64_t short_length = 256 * 1024, batches_length = 7 << 20;
    // Length of a set that nearly fills parts of the minimum size.
    static constexpr std::uint64_t min_part = 2 << 20, full_length = min_part - 16 * 1024;
    static std::uint64_t pick_length(world &in, bool is_pool);
    unsigned copy_of(unsigned machine) const;
    std::uint32_t all_targets() const { return ((1U << targets_) - 1) << copy_of(writers); }
    std::string directory(unsigned machine) const { return place_ + "/" + std::to_string(machine); }
    std::vector<history::place> places() const;

    void make_directories();
    void list_part(unsigned machine, std::uint64_t length) const;
    void fill_unused();
    void start_target(unsigned machine);
    // Starts a process that ends after its work.
    void start_writer(unsigned machine, std::function<void()> work);
    void die(process &p, bool power, time_us back_after);
    // Returns a process of the machine, or NULL.
    process *pick_process(unsigned machine);

    // Threads of a writer.
    rpma_mirror_cfg *configure(unsigned machine, bool force = false);
    void create(unsigned machine);
    void write(unsigned machine);
    void go_without(unsigned machine);
    void finish(unsigned machine);
    // Threads of a program with a pool.
    void start_daemon(unsigned machine, int fd);
    std::string target_list() const;
    RPMEMpool *new_handle(session &s, bool create);
    bool open_pool(session &s, unsigned tries);
    void create_pool();
    int flush_pool(session &s, unsigned lane, const history::call &c);
    void finish_pool(unsigned machine);
    bool open(session &s, unsigned tries, unsigned flags = 0);
    bool needs_silent(std::uint32_t visible) const;
    void fence(const session &s);
    void check_refusal(const char *what, int code, const std::vector<replica::mirror_promise> &before) const;
    void end_unless_overtaken(const session &s, const char *what);
    void write_lane(session &s, unsigned lane);
    // Stores the next number in each word of a slot.
    history::call store(session &s, std::size_t slot);
    // Stores in slot 0, and flushes the whole set.
    int flush_whole(session &s);
    int flush(session &s, unsigned lane, history::call &c);
    void mark(session &s);
    void bring_back(session &s);
    // Next length of the set, or 0 if it has the maximum.
    std::uint64_t next_length();
    // Prepares a growth like an operator. Faults may occur during it.
    void begin_growth(std::uint64_t length);
    int grow(session &s);
    int grow_closed(unsigned machine);

    // Must be called outside of simulated threads.
    void calm_down();
    void last();
    void begin_to_last(process &target);
    void hit();
    void strike();
    void hit_process(unsigned machine);
    void hit_link();
    void operate();
    void replace_local_file(unsigned machine);
    bool writer_lives() const;

    const std::string place_;
    world world_;
    network network_;
    storage storage_;
    device device_;
    const bool is_pool_;
    const unsigned targets_;
    history history_;
    const bool availability_;
    const bool background_;      // the library resynchronizes returned targets, too
    const bool program_resyncs_; // the program resynchronizes them
    const bool flushes_all_;     // writers flush all stores, and declare it at the end
    const unsigned slow_count_;  // late confirmations after which a target is evicted, or 0
    const bool grows_;           // the set grows
    const bool restores_parts_;  // faults restore parts of one target; otherwise local files
    keeper keeper_;
    unsigned operation_ms_, open_ms_;
    std::array<process *, max_machines> processes_{};
    std::vector<process *> daemons_;     // one for each session of a pool
    std::array<bool, writers> closed_{}; // the last writer of the machine closed the set cleanly
    bool faults_ = true;
    std::uint32_t silent_ = 0;      // copies on targets with a lasting fault, as a mask
    bool silent_from_begin_ = true; // silent from the start of a machine's work on the set
    bool creation_begun_ = false;
    bool created_ = false;
    unsigned finished_ = 0;
    std::uint64_t struck_ = 0;
};

} // namespace simulation
