// SPDX-License-Identifier: BSD-3-Clause
// Simulated devices, memory and connections of librpma.
#include "verbs.hpp"

#include <cstring>

#include "bytes.hpp"
#include "message/lane_proof.hpp"

using namespace simulation;

namespace
{

world &here()
{
    return *world::instance;
}

void reject(const std::shared_ptr<queue_pair> &client, queue_pair &server)
{
    server.out->send([weak = std::weak_ptr(client)] {
        const auto c = weak.lock();
        if (!c || c->gone)
            return;
        c->deliver_event(RPMA_CONN_REJECTED);
        c->fail(IBV_WC_WR_FLUSH_ERR);
    });
}

// The request arrives at a machine.
void arrive(const std::shared_ptr<queue_pair> &client, const std::string &place, const std::string &data)
{
    const auto found = adapter->listeners.find(place);
    if (client->gone)
        return;
    if (found == adapter->listeners.end() || !found->second->owner->alive) {
        client->deliver_event(RPMA_CONN_REJECTED);
        client->fail(IBV_WC_WR_FLUSH_ERR);
        return;
    }
    rpma_ep &ep = *found->second;
    ep.requests.emplace_back(client, data);
    here().touch(*ep.owner);
}

} // namespace

extern "C" {

SIMULATED(const char *, rpma_err_2str, (int), "the simulated device")

int rpma_utils_get_ibv_context_by_kind(
        const char *address, rpma_util_ibv_context_type, rpma_device_kind, ibv_context **to)
{
    static ibv_context the_only{};
    *to = &the_only;
    return machine_of(address) < 0 ? RPMA_E_PROVIDER : 0;
}

SIMULATED(int, rpma_utils_ibv_context_get_kind, (ibv_context *, rpma_device_kind *kind),
        stored(kind, adapter->software ? RPMA_DEVICE_SOFTRDMA : RPMA_DEVICE_KERNEL))
SIMULATED(int, rpma_peer_new, (ibv_context *, rpma_peer **to), stored(to, new rpma_peer))
SIMULATED_DELETE(rpma_peer_delete, rpma_peer)
SIMULATED(int, rpma_peer_cfg_new, (rpma_peer_cfg * *to), stored(to, new rpma_peer_cfg))
SIMULATED_DELETE(rpma_peer_cfg_delete, rpma_peer_cfg)
SIMULATED(int, rpma_peer_cfg_set_direct_write_to_pmem, (rpma_peer_cfg *, bool), 0)
SIMULATED(int, rpma_peer_cfg_get_descriptor, (const rpma_peer_cfg *, void *to), stored(static_cast<char *>(to), 1))
SIMULATED(int, rpma_peer_cfg_get_descriptor_size, (const rpma_peer_cfg *, size_t *size), stored(size, 1))
SIMULATED(int, rpma_peer_cfg_from_descriptor, (const void *, size_t, rpma_peer_cfg **to), stored(to, new rpma_peer_cfg))
SIMULATED(int, rpma_conn_cfg_new, (rpma_conn_cfg * *to), stored(to, new rpma_conn_cfg))
SIMULATED_DELETE(rpma_conn_cfg_delete, rpma_conn_cfg)
SIMULATED(int, rpma_conn_cfg_set_timeout, (rpma_conn_cfg *, int), 0)
SIMULATED(int, rpma_conn_cfg_set_cq_size, (rpma_conn_cfg *, uint32_t), 0)
SIMULATED(int, rpma_conn_cfg_set_sq_size, (rpma_conn_cfg *, uint32_t), 0)
SIMULATED(int, rpma_conn_cfg_set_rq_size, (rpma_conn_cfg *, uint32_t), 0)

int rpma_mr_reg(rpma_peer *, void *from, size_t size, int usage, rpma_mr_local **to)
{
    auto *const address = static_cast<std::byte *>(from);
    // The kernel prepares the pages for writes, like a store to each.
    if ((usage & (RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_DST)) != 0)
        if (file *const f = disks->at(address); f != nullptr)
            f->changed = disks->next_time();
    const std::uint32_t key = ++adapter->last_key;
    adapter->regions[key] = {&here().here(), address, size};
    return stored(to, new rpma_mr_local{address, size, key, usage});
}

int rpma_mr_get_native_flush_type(const rpma_mr_local *of, int *types)
{
    constexpr int all = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    *types = adapter->native_targets ? of->usage & all : 0;
    return 0;
}

int rpma_mr_dereg(rpma_mr_local **of)
{
    if (*of != nullptr)
        adapter->regions.erase((*of)->key);
    here().perhaps_switch();
    return deleted(of);
}

SIMULATED(int, rpma_mr_get_descriptor_size, (const rpma_mr_local *, size_t *size), stored(size, sizeof(rpma_mr_remote)))

int rpma_mr_get_descriptor(const rpma_mr_local *of, void *to)
{
    const rpma_mr_remote described{of->key, of->size};
    std::memcpy(to, &described, sizeof(described));
    return 0;
}

int rpma_mr_remote_from_descriptor(const void *from, size_t, rpma_mr_remote **to)
{
    *to = new rpma_mr_remote;
    std::memcpy(*to, from, sizeof(**to));
    return 0;
}

SIMULATED(int, rpma_mr_remote_get_size, (const rpma_mr_remote *of, size_t *size), stored(size, of->size))
SIMULATED_DELETE(rpma_mr_remote_delete, rpma_mr_remote)

int rpma_ep_listen(rpma_peer *, const char *address, const char *port, rpma_ep **to)
{
    const auto ep = std::make_shared<rpma_ep>();
    process &in = here().here();
    ep->owner = &in;
    ep->place = std::string(address) + ":" + port;
    ep->fd = here().add(in, ep);
    adapter->listeners[ep->place] = ep.get();
    in.at_end.push_back([place = ep->place, ep](bool) { adapter->listeners.erase(place); });
    return stored(to, ep.get());
}

int rpma_ep_shutdown(rpma_ep **of)
{
    if (rpma_ep *const ep = std::exchange(*of, nullptr); ep != nullptr) {
        adapter->listeners.erase(ep->place);
        for (const auto &[client, data] : ep->requests)
            if (!client->gone)
                client->deliver_event(RPMA_CONN_REJECTED);
        ep->requests.clear();
        here().close(ep->fd);
    }
    return 0;
}

SIMULATED(int, rpma_ep_get_fd, (const rpma_ep *of, int *fd), stored(fd, of->fd))

int rpma_ep_next_conn_req(rpma_ep *ep, const rpma_conn_cfg *, rpma_conn_req **to)
{
    if (ep->requests.empty())
        return RPMA_E_NO_EVENT;
    const auto [client, data] = ep->requests.front();
    ep->requests.pop_front();
    const auto pair = std::make_shared<queue_pair>();
    pair->open(here().here(), client->owner->machine);
    pair->other = client;
    return stored(to, new rpma_conn_req{pair, "", data});
}

int rpma_conn_req_new(rpma_peer *, const char *address, const char *port, const rpma_conn_cfg *, rpma_conn_req **to)
{
    const auto pair = std::make_shared<queue_pair>();
    pair->open(here().here(), static_cast<unsigned>(machine_of(address)));
    here().perhaps_switch();
    return stored(to, new rpma_conn_req{pair, std::string(address) + ":" + port, ""});
}

int rpma_conn_req_recv(rpma_conn_req *req, rpma_mr_local *to, size_t offset, size_t size, const void *context)
{
    req->pair->receives.push_back({to->address + offset, size, number_of(context)});
    return 0;
}

int rpma_conn_req_get_private_data(const rpma_conn_req *req, rpma_conn_private_data *to)
{
    to->ptr = const_cast<char *>(req->private_data.data());
    to->len = static_cast<std::uint8_t>(req->private_data.size());
    return 0;
}

int rpma_conn_req_delete(rpma_conn_req **of)
{
    if (*of != nullptr && !(*of)->taken) {
        if (const auto client = (*of)->pair->other.lock(); client && (*of)->place.empty())
            reject(client, *(*of)->pair);
        (*of)->pair->gone = true;
        here().close((*of)->pair->cq_fd);
        here().close((*of)->pair->cm_fd);
    }
    return deleted(of);
}

int rpma_conn_req_connect(rpma_conn_req **of, const rpma_conn_private_data *data, rpma_conn **to)
{
    rpma_conn_req &req = **of;
    const std::shared_ptr<queue_pair> pair = req.pair;
    req.taken = true;
    if (!req.place.empty()) {
        const std::string sent(static_cast<const char *>(data->ptr), data->len);
        // Layout of replica::make_epoch_proof(). The proof of a pool has no epoch.
        if (sent.size() > replica::lane_proof_size)
            pair->epoch = byte_reader(std::as_bytes(std::span(sent)).subspan(12)).get<std::uint64_t>();
        pair->out->send([pair, place = req.place, sent] { arrive(pair, place, sent); });
    } else if (const auto client = pair->other.lock()) {
        client->other = pair;
        pair->now = queue_pair::state::established;
        pair->out->send([client, pair] {
            if (client->gone || client->now != queue_pair::state::connecting)
                return pair->fail(IBV_WC_WR_FLUSH_ERR);
            client->now = queue_pair::state::established;
            client->deliver_event(RPMA_CONN_ESTABLISHED);
            client->out->send([pair] {
                if (!pair->gone)
                    pair->deliver_event(RPMA_CONN_ESTABLISHED);
            });
        });
    }
    *to = new rpma_conn{pair, {pair->cq, pair->cq_fd}};
    return rpma_conn_req_delete(of);
}

SIMULATED(int, rpma_conn_get_event_fd, (const rpma_conn *of, int *fd), stored(fd, of->pair->cm_fd))

int rpma_conn_next_event(rpma_conn *of, rpma_conn_event *event)
{
    auto &events = of->pair->cm->events;
    if (events.empty())
        return RPMA_E_NO_EVENT;
    *event = events.front();
    events.pop_front();
    return 0;
}

SIMULATED(int, rpma_conn_get_native_flush, (const rpma_conn *, bool *native), stored(native, adapter->native_writers))
SIMULATED(int, rpma_conn_apply_remote_peer_cfg, (rpma_conn *, const rpma_peer_cfg *), 0)
SIMULATED(int, rpma_conn_get_cq, (const rpma_conn *of, rpma_cq **to), stored(to, const_cast<rpma_cq *>(&of->cq)))
SIMULATED(int, rpma_cq_get_fd, (const rpma_cq *of, int *fd), stored(fd, of->fd))

} // extern "C"
