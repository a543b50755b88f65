// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cm/cm.hpp"

// Ids whose messages are management datagrams of RoCE. The manager of ids calls these functions in place of those of a
// path over TCP. The caller must hold the lock unless another rule is given.
namespace softrdma::cm::over_roce
{

// Opens the port once, like roce::port::open(): the caller must not hold a lock. Returns false and sets errno on error.
bool open();

// Accepts requests for the port of the id. Returns 0 or an errno value.
int listen(cm_id &id) REQUIRES(lock());
void stop_listening(cm_id &id) REQUIRES(lock());

// Called when TCP refused the connection for the first time: checks in the background whether the peer uses RoCE.
void probe(cm_id &id) REQUIRES(lock());
// Called when TCP refused it finally: requests the connection over RoCE. Returns false if the peer does not use RoCE.
bool follow_rejection(cm_id &id) REQUIRES(lock());
// Gives the queue pair of the id, if it exists, a number of RoCE. Returns 0 or an errno value.
int join(cm_id &id) REQUIRES(lock());
void leave(cm_id &id) REQUIRES(lock());
void adopt_path(cm_id &id) REQUIRES(lock());

int request(cm_id &id) REQUIRES(lock());
void reply(cm_id &id) REQUIRES(lock());
void ready(cm_id &id) REQUIRES(lock());
void reject(cm_id &id, const cm_rejection &rejection) REQUIRES(lock());
void disconnect(cm_id &id) REQUIRES(lock());
void confirm_disconnect(cm_id &id) REQUIRES(lock());
// The id is destroyed: ends its connection in the way that its state requires.
void abandon(cm_id &id) REQUIRES(lock());

} // namespace softrdma::cm::over_roce
