/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers, as the communicator sees them: headers find their receives, then the bytes move, in
 * pieces where one message cannot hold them.
 */
#include "transport/mpi/module.h"

#include <stdlib.h>

/* For what moves when the run ends: less than processes wait for each other to tell how it did. */
#define DROP_NS UINT64_C(1000000000)

/* Number of bytes of the piece that begins behind `moved`. */
static int piece(uint64_t bytes, uint64_t moved)
{
    uint64_t left = bytes - moved;

    return (int)(left < MPI_PIECE ? left : MPI_PIECE);
}

/* The next piece; false: there is none, the transfer is over. */
static bool next_piece(struct world *world, struct request *request)
{
    int n = piece(request->bytes, request->moved);
    char *at = (char *)request->data + request->moved;
    int tag = TAG_DATA + (int)request->number, peer = (int)request->peer, code;

    if (n == 0) {
        return false;
    }
    code = request->is_send
               ? MPI_Isend(at, n, MPI_BYTE, peer, tag, world->comm, &request->data_request)
               : MPI_Irecv(at, n, MPI_BYTE, peer, tag, world->comm, &request->data_request);
    request->moved += (uint64_t)n;
    return mpi_ok(world, code, request->is_send ? "MPI_Isend" : "MPI_Irecv");
}

static void finish(struct world *world, struct request *request, uint32_t state)
{
    request->end_ns = pst_now_ns();
    if (!atomic_load(&world->aborted)) { /* MPI itself may have failed */
        mpi_publish(world, &request->state, state);
    }
}

/* A receive has its header. */
static void start_receive(struct world *world, struct request *request, const struct header *header,
                          uint64_t at_ns)
{
    request->number = header->number;
    request->start_ns = at_ns > request->posted_ns ? at_ns : request->posted_ns;
    if (header->bytes != request->bytes) {
        request->peer_bytes = header->bytes;
        finish(world, request, REQUEST_BAD);
    } else if (!next_piece(world, request)) {
        finish(world, request, REQUEST_DONE);
    } else {
        world->active[world->n_active++] = request;
    }
}

static void start_send(struct world *world, struct request *request)
{
    struct peer *peer = &world->peers[request->peer];
    int code;

    request->number = peer->n_sent++ % world->n_numbers;
    request->start_ns = request->posted_ns;
    request->header = (struct header){
        .tag = request->link.tag, .bytes = request->bytes, .number = request->number};
    code = MPI_Isend(&request->header, (int)sizeof request->header, MPI_BYTE, (int)request->peer,
                     TAG_HEADER, world->comm, &request->header_request);
    mpi_ok(world, code, "MPI_Isend");
    next_piece(world, request);
    world->active[world->n_active++] = request;
}

/* Looks for the header of a receive among those that came before it. */
static void expect(struct world *world, struct request *request)
{
    struct peer *peer = &world->peers[request->peer];
    struct arrival *arrival = requests_take(&peer->arrived, request->link.tag);

    if (arrival == NULL) {
        requests_append(&peer->expected, request);
        return;
    }
    requests_push(&world->free_arrivals, arrival);
    start_receive(world, request, &arrival->header, arrival->at_ns);
}

bool mpi_transfers_take(struct world *world, struct request_queue *inbox)
{
    bool any = inbox->first != NULL;
    struct request *request;

    while ((request = requests_shift(inbox)) != NULL) {
        if (request->is_send) {
            start_send(world, request);
        } else {
            expect(world, request);
        }
    }
    return any;
}

/* Keeps a header that nobody waits for yet. */
static void keep(struct world *world, struct peer *peer)
{
    struct arrival *arrival = requests_pop(&world->free_arrivals);

    arrival = arrival != NULL ? arrival : malloc(sizeof *arrival);
    if (arrival == NULL) {
        mpi_give_up_memory(world);
        return;
    }
    *arrival = (struct arrival){
        .link = {.tag = peer->header.tag}, .header = peer->header, .at_ns = pst_now_ns()};
    requests_append(&peer->arrived, arrival);
}

static void match(struct world *world, struct peer *peer)
{
    struct request *request = requests_take(&peer->expected, peer->header.tag);

    if (request != NULL) {
        start_receive(world, request, &peer->header, pst_now_ns());
    } else {
        keep(world, peer);
    }
}

static bool take_headers(struct world *world, uint32_t rank)
{
    struct peer *peer = &world->peers[rank];
    bool any = false;

    for (;;) {
        int code;

        if (peer->header_request != MPI_REQUEST_NULL) {
            if (!mpi_ended(world, &peer->header_request) || atomic_load(&world->aborted)) {
                return any;
            }
            match(world, peer);
            any = true;
        }
        code = MPI_Irecv(&peer->header, (int)sizeof peer->header, MPI_BYTE, (int)rank, TAG_HEADER,
                         world->comm, &peer->header_request);
        if (!mpi_ok(world, code, "MPI_Irecv")) {
            return any;
        }
    }
}

bool mpi_transfers_progress(struct world *world)
{
    bool any = false;

    if (world->active == NULL || atomic_load(&world->aborted)) {
        return false;
    }
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        any = (i != world->rank && take_headers(world, i)) || any;
    }
    for (uint32_t i = 0; i < world->n_active;) {
        struct request *request = world->active[i];
        bool over = mpi_ended(world, &request->data_request);

        if (over && next_piece(world, request)) {
            any = true;
            over = false;
        }
        if (over && mpi_ended(world, &request->header_request)) {
            world->active[i] = world->active[--world->n_active];
            finish(world, request, REQUEST_DONE);
            any = true;
        } else {
            i++;
        }
    }
    return any;
}

bool mpi_transfers_drop(struct world *world)
{
    bool dropped = true;
    uint64_t end = pst_now_ns() + DROP_NS;
    void *arrival;

    /* Transfers that have begun may end: their memory is in use until then. */
    while (world->n_active > 0 && pst_now_ns() < end) {
        struct request *request = world->active[world->n_active - 1];

        if (!mpi_ended(world, &request->data_request) ||
            !mpi_ended(world, &request->header_request)) {
            struct timespec moment = {0, 20000};

            nanosleep(&moment, NULL);
        } else {
            world->n_active--;
        }
    }
    for (; world->n_active > 0; world->n_active--) {
        struct request *request = world->active[world->n_active - 1];

        dropped = mpi_drop(world, &request->data_request, !request->is_send) && dropped;
        dropped = mpi_drop(world, &request->header_request, false) && dropped;
    }
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        struct peer *peer = &world->peers[i];

        mpi_drop(world, &peer->header_request, true);
        peer->expected = (struct request_queue){0};
        while ((arrival = requests_shift(&peer->arrived)) != NULL) {
            free(arrival);
        }
    }
    while ((arrival = requests_pop(&world->free_arrivals)) != NULL) {
        free(arrival);
    }
    free(world->active);
    world->active = NULL;
    return dropped;
}
