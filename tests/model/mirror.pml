/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The protocol of mirrors, docs/replication.md: who may write, what a target refuses, and which copy is chosen. Two hosts may
 * run a writer, each with a copy of its own; two targets keep a copy each. Requests and answers get lost, targets and
 * writers crash, and each writer may be as slow as it likes.
 *
 * Where its steps are in the code:
 *   prepare, promise, revoke   rpmemd::mirror_set::prepare(), replica::may_promise(), rpmemd::lane_server::revoke()
 *   commit                     rpmemd::mirror_set::commit(), replica::may_commit()
 *   attach                     rpmemd::mirror_set::attach()
 *   lanes_epoch                replica::check_epoch_proof(), in rpmemd::lane_server::prove()
 *   NEWER                      replica::is_newer()
 *   open_set                   mirror::opening::open_set(): acquire_epoch(), prepare_all(), choose_source(),
 *                              resync_copies(), commit_first_record()
 *   commit_record              mirror::membership::commit_record()
 *   flush_one, write_one       mirror::flusher::flush(), post(), await(); lost: mirror::membership::evict()
 *   closed                     mirror::membership::end()
 *   resync_begin, resync_step  mirror::resyncer::connect_again(), run_resync()
 *   resync_end                 mirror::resyncer::join(), revert_join()
 *
 * Properties: no acknowledged flush is lost, no stale copy is chosen, at most one writer is accepted. Each is an
 * assertion below. A mutant is the model with one macro defined; model_test.py expects each of them to fail. It defines
 * FLUSHES, OPENS and FAULTS, the limits of the exploration.
 */
#define COPIES 4      /* 0 and 3 are the writers' own, 1 and 2 those of the targets */
#define IS_TARGET(c) ((c) == 1 || (c) == 2)
#define TARGETS 6     /* as bits */
#define BIT(n) (1 << (n))

/* What is durable at each copy: the flushes that it holds, as bits; the promise; the committed record. */
byte held[COPIES];
byte promised[COPIES];
byte promised_to[COPIES];
byte record_epoch[COPIES];
byte record_version[COPIES];
byte record_in_sync[COPIES];
/* What a target loses when it crashes: data that was written and not flushed, and the epoch whose lanes it serves. */
byte seen[COPIES];
byte lanes_epoch[COPIES];

/* What an observer knows. */
byte acknowledged;
byte newest_epoch = 1;  /* of a writer that was opened */
byte newest_home = 0;   /* its own copy */
byte answered_epoch[COPIES]; /* for which a target has said yes */

byte flushes_left = FLUSHES;
byte opens_left = OPENS;
byte faults_left = FAULTS;

#define CHECK_NOTHING_LOST assert((acknowledged & ~held[newest_home]) == 0)

#define WHEN(condition, ...)                                                                                           \
    if                                                                                                                 \
    :: condition -> __VA_ARGS__                                                                                        \
    :: else                                                                                                            \
    fi

/* Whether a request and its answer come through: 0 neither, 1 the request only, 2 both. */
inline network(result)
{
    if
    :: result = 2
    :: faults_left > 0 -> faults_left--; result = 0
    :: faults_left > 0 -> faults_left--; result = 1
    fi
}

inline promise(c)
{
    promised[c] = epoch;
    promised_to[c] = home
}

inline revoke(c)
{
    WHEN(lanes_epoch[c] < promised[c], lanes_epoch[c] = 0)
}

/* Asks a target for its promise. answered gets its bit if the writer hears yes. */
inline prepare(c)
{
    atomic {
        network(came);
        good = (came > 0 && (promised[c] < epoch || (promised[c] == epoch && promised_to[c] == home)));
        if
        :: good -> promise(c)
        :: else -> came = 0
        fi
    }
    atomic {
        if
        :: good ->
#ifndef MUTANT_ANSWER_BEFORE_REVOKE
            revoke(c);
#endif
            WHEN(came == 2 && promised[c] == epoch,
                answered = answered | BIT(c);
                answered_epoch[c] = epoch)
        :: else
        fi;
        good = 0;
        came = 0
    }
}

/* The record of the writer becomes durable at a copy. good tells whether the writer knows that. */
inline commit(c)
{
    if
    :: IS_TARGET(c) -> network(came)
    :: else -> came = 2
    fi;
#ifdef MUTANT_COMMIT_ANY_EPOCH
    if
    :: came > 0 ->
#else
    if
    :: came > 0 && promised[c] == epoch && promised_to[c] == home ->
#endif
        record_epoch[c] = epoch;
        record_version[c] = version;
        record_in_sync[c] = in_sync;
        good = (came == 2)
    :: else -> good = 0
    fi;
    came = 0
}

/* Makes the record durable at each member that is in sync. A target that does not answer leaves the record, and all is
   done again with the next version. in_sync has no target at the end if the writer has to stop. needed are targets
   without which the record does not count. */
inline commit_record()
{
    atomic { version++; at = 0 }
    do
    :: atomic {
        (in_sync & TARGETS) != 0 && at < COPIES ->
        do
        :: at < COPIES && (in_sync & BIT(at)) == 0 -> at++
        :: else -> break
        od;
        if
        :: at < COPIES ->
            commit(at);
            if
            :: good -> at++
            :: !good && IS_TARGET(at) ->
                in_sync = in_sync & ~BIT(at);
#ifndef MUTANT_LEAVE_ALL_BEFORE
                /* Of those that counted before, one stays: who asks the others later finds this record there. */
                WHEN((needed & BIT(at)) != 0 || (in_sync & before) == 0, in_sync = 0);
#endif
                version++;
                at = 0
            :: !good && !IS_TARGET(at) -> in_sync = 0
            fi;
            good = 0
        :: else
        fi
    }
    :: atomic { (in_sync & TARGETS) == 0 || at == COPIES ->
        at = 0;
        needed = 0;
        before = in_sync & TARGETS;
        break
    }
    od
}

inline attach(c)
{
    WHEN(promised[c] == epoch && promised_to[c] == home, lanes_epoch[c] = epoch)
}

/* Whether the record of a copy is newer than that of the newest so far. */
#define NEWER(c) (record_epoch[c] > record_epoch[newest] || \
    (record_epoch[c] == record_epoch[newest] && record_version[c] > record_version[newest]))

/* Takes a copy of the source. Nothing is acknowledged meanwhile. */
inline resync_copies(c)
{
    held[c] = held[source];
    seen[c] = held[source]
}

/* Opens the set for this writer: by its restart, or by promotion of another host. */
inline open_set()
{
    atomic {
        open = 0;
        syncing = 0;
        answered = 0;
        epoch = promised[home];
        at = 1;
        do
        :: at < 3 ->
            WHEN(promised[at] > epoch, epoch = promised[at]);
            at++
        :: else -> break
        od;
        epoch++;
        version = 0;
        promise(home)
    }
    prepare(1);
    prepare(2);
    atomic {
        newest = home;
        WHEN((answered & BIT(1)) && NEWER(1), newest = 1);
        WHEN((answered & BIT(2)) && NEWER(2), newest = 2);
        in_sync = record_in_sync[newest];
        source = COPIES;
        if
#ifdef MUTANT_OPEN_WITHOUT_ALL
        :: (in_sync & TARGETS & answered) == 0 -> in_sync = 0
#else
        /* Every target that was in sync has to answer: it may know of a newer record, or be needed by an old writer. */
        :: (in_sync & TARGETS & ~answered) != 0 || (in_sync & TARGETS) == 0 -> in_sync = 0
#endif
        :: else ->
#ifdef MUTANT_CHOOSE_ANY_COPY
            if
            :: answered & BIT(1) -> source = 1
            :: answered & BIT(2) -> source = 2
            fi
#else
            if
            :: (in_sync & BIT(home)) && record_epoch[home] == record_epoch[newest] &&
                record_version[home] == record_version[newest] -> source = home
            :: else ->
                if
                :: (in_sync & answered & BIT(1)) -> source = 1
                :: (in_sync & answered & BIT(2)) -> source = 2
                :: else -> in_sync = 0
                fi
            fi
#endif
        fi
    }
    if
    :: in_sync != 0 ->
        atomic {
            WHEN(source != home, resync_copies(home))
        }
        atomic {
            WHEN((answered & BIT(1)) && source != 1, resync_copies(1))
        }
        atomic {
            WHEN((answered & BIT(2)) && source != 2, resync_copies(2));
            needed = in_sync & TARGETS;
            before = needed;
            in_sync = answered | BIT(home);
            source = 0;
            newest = 0;
            answered = 0
        }
        commit_record();
        atomic {
            if
            :: (in_sync & TARGETS) != 0 ->
                attach(1);
                attach(2);
                open = 1;
                WHEN(epoch > newest_epoch,
                    newest_epoch = epoch;
                    newest_home = home);
                CHECK_NOTHING_LOST
            :: else -> closed()
            fi
        }
    :: else -> closed()
    fi
}

/* What a writer that has stopped remembers. */
inline closed()
{
    atomic {
        open = 0;
        epoch = 0;
        version = 0;
        in_sync = 0;
        syncing = 0;
        cursor = 0;
        answered = 0;
        source = 0;
        newest = 0;
        before = 0
    }
}

/* One target gets what is written, and flushes it. good tells whether the writer knows that it is durable there. */
inline write_one(c)
{
    atomic {
        network(came);
        good = 0;
        if
#ifdef MUTANT_ACCEPT_OLD_LANES
        :: came > 0 ->
#else
        :: came > 0 && lanes_epoch[c] == epoch ->
#endif
            /* Nothing of an old writer reaches a target that has given its promise to another. */
            assert(answered_epoch[c] <= epoch);
            seen[c] = seen[c] | BIT(flush);
            good = 1
        :: else
        fi
    }
    atomic {
        if
        :: good && lanes_epoch[c] == epoch ->
#ifndef MUTANT_ANSWER_BEFORE_FLUSH
            held[c] = held[c] | seen[c];
#endif
            good = (came == 2)
        :: else -> good = 0
        fi;
        came = 0
    }
}

inline flush_one()
{
    atomic {
        flush = flushes_left;
        began_late = (newest_epoch > epoch);
        held[home] = held[home] | BIT(flush);
        lost = 0;
        target = 0
    }
    do
    :: target < 2 ->
        target++;
        if
        :: ((in_sync | syncing) & BIT(target)) != 0 ->
            write_one(target);
            atomic {
                if
                :: good
                :: !good && (in_sync & BIT(target)) != 0 -> lost = lost | BIT(target)
                :: !good && (syncing & BIT(target)) != 0 -> syncing = 0; cursor = 0
                fi;
                good = 0
            }
        :: else
        fi
    :: else -> break
    od;
#ifdef MUTANT_COMMIT_AFTER_RETURN
    acknowledge();
#endif
    if
    :: lost != 0 ->
        in_sync = in_sync & ~lost;
#ifndef MUTANT_EVICT_WITHOUT_RECORD
        commit_record()
#endif
    :: else
    fi;
    if
#ifndef MUTANT_GO_ON_ALONE
    :: (in_sync & TARGETS) == 0 -> closed()
#endif
    :: else -> acknowledge()
    fi;
    atomic { flush = 0; lost = 0; began_late = 0; target = 0 }
}

inline acknowledge()
{
    atomic {
        acknowledged = acknowledged | BIT(flush);
        assert(!began_late);
        CHECK_NOTHING_LOST
    }
}

/* A target that is not in sync takes part in flushes, and gets what it lacks. */
inline resync_begin(c)
{
    answered = 0;
    prepare(c);
    if
    :: answered != 0 ->
        atomic {
            attach(c);
            syncing = BIT(c);
            cursor = 0;
            answered = 0
        }
    :: else
    fi
}

inline resync_step()
{
    atomic {
        target = (syncing == BIT(1) -> 1 : 2);
        if
        :: lanes_epoch[target] == epoch ->
            held[target] = (held[target] & ~BIT(cursor)) | (held[home] & BIT(cursor));
            seen[target] = held[target];
            cursor++
        :: else -> syncing = 0; cursor = 0
        fi;
        target = 0
    }
}

inline resync_end()
{
    atomic {
        in_sync = in_sync | syncing;
        syncing = 0;
        cursor = 0
    }
    commit_record();
    WHEN((in_sync & TARGETS) == 0, closed())
}

#ifdef MUTANT_RESYNC_ENDS_EARLY
#define RESYNC_DONE (cursor >= 1)
#else
#define RESYNC_DONE (cursor == FLUSHES)
#endif

proctype writer(byte home)
{
    byte epoch = 1, version = 1, in_sync = 7, syncing, answered, newest, source, at, came, flush, lost, target, cursor, needed;
    byte before = 6;
    bit open = (home == 0), good, began_late;
end:
    do
    :: atomic { opens_left > 0 -> opens_left-- } open_set()
    :: atomic { open && flushes_left > 0 -> flushes_left-- } flush_one()
    :: open && syncing == 0 && (in_sync & BIT(1)) == 0 -> resync_begin(1)
    :: open && syncing == 0 && (in_sync & BIT(2)) == 0 -> resync_begin(2)
    :: open && syncing != 0 && cursor < FLUSHES -> resync_step()
    :: open && syncing != 0 && RESYNC_DONE -> resync_end()
    od
}

/* A target that loses its power, or its process, and comes back. */
proctype accidents()
{
    byte c;
end:
    do
    :: atomic {
        faults_left > 0 ->
        faults_left--;
        if
        :: c = 1
        :: c = 2
        fi;
        seen[c] = held[c];
        lanes_epoch[c] = 0;
#ifdef MUTANT_PROMISE_NOT_DURABLE
        promised[c] = record_epoch[c];
        promised_to[c] = 0
#endif
    }
    od
}

init
{
    atomic {
        byte c = 0;
        do
        :: c < COPIES ->
            WHEN(c < 3,
                promised[c] = 1;
                record_epoch[c] = 1;
                record_version[c] = 1;
                record_in_sync[c] = 7);
            WHEN(IS_TARGET(c), lanes_epoch[c] = 1);
            c++
        :: else -> break
        od;
        run writer(0);
        run writer(3);
        run accidents()
    }
}
