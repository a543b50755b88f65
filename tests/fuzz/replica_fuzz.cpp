// SPDX-License-Identifier: BSD-3-Clause
// The parsers of the messages between a remote replica and its client. An accepted message is encoded again and must be
// accepted again.
#include "message/control.hpp"
#include "message/lane_message.hpp"
#include "message/lane_proof.hpp"

#include <algorithm>
#include <cstdlib>

using namespace replica;

template<class Message>
static void read_control(std::string_view input)
{
    Message message, again;
    if (decode(input, message) != decoded::good)
        return;
    const std::string once = message.SerializeAsString();
    if (decode(once, again) != decoded::good || again.SerializeAsString() != once)
        abort();
}

// Converts the parts of an accepted request or response.
static void convert(std::string_view input)
{
    request r;
    if (decode(input, r) == decoded::good && r.has_commit()) {
        wire::record back;
        to_wire(from_wire(r.commit().record()), back);
        if (from_wire(back) != from_wire(r.commit().record()))
            abort();
    }
    if (decode(input, r) == decoded::good)
        (void)from_wire(r.create().attributes());
    response s;
    if (decode(input, s) == decoded::good) {
        wire::state back;
        to_wire(from_wire(s.state()), back);
        if (from_wire(back) != from_wire(s.state()))
            abort();
    }
}

static void read_lane(std::span<const std::byte> input)
{
    std::byte wire[max_lane_request_size];
    lane_request request;
    if (decode(input, request) &&
            (encode(request, wire) != input.size() || !std::equal(input.begin(), input.end(), wire)))
        abort();
    lane_response answered;
    if (decode(input, answered) &&
            (encode(answered, wire) != input.size() || !std::equal(input.begin(), input.end(), wire)))
        abort();
    std::uint32_t lane = 0;
    if (check_lane_proof(token{}, input, &lane) && input.size() < lane_proof_size)
        abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::span<const std::byte> input{reinterpret_cast<const std::byte *>(data), size};
    const std::string_view bytes{reinterpret_cast<const char *>(data), size};
    read_control<greeting>(bytes);
    read_control<request>(bytes);
    read_control<response>(bytes);
    convert(bytes);
    check_preamble(input);
    read_lane(input);
    if (size >= frame_header_size && message_size(input.first<frame_header_size>()).value_or(0) > max_message_size)
        abort();
    return 0;
}
