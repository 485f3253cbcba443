/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of devices whose memory MPI cannot reach: what is sent or summed is copied to host memory
 * when it is posted, what has come is copied back when it is waited for.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "base/saturate.h"
#include "transport/mpi/module.h"

#define ALIGN 64u

static void make_room(struct stage *stage, uint64_t bytes)
{
    if (bytes > stage->room) {
        *stage = (struct stage){.bytes = pst_resize(stage->pinned ? NULL : stage->bytes, bytes, 1),
                                .room = bytes};
    }
}

/* --- before the first post ---------------------------------------------------------------------*/

static uint64_t aligned(uint64_t bytes)
{
    return pst_sat_add(bytes, ALIGN - 1) / ALIGN * ALIGN;
}

static struct stage take(char **at, uint64_t bytes)
{
    struct stage stage = {.bytes = *at, .room = bytes, .pinned = true};

    *at += aligned(bytes);
    return stage;
}

/* Requests and sums are taken from stacks: as many as are open at once are those that are used. */
pst_status mpi_attach(struct pst_transport *transport, uint32_t rank, struct pst_error *err)
{
    const struct pst_transport_memory *memory = &transport->memory;
    const struct pst_device_ops *device = transport->device;
    const uint32_t n_meetings = transport->max_meetings + 1 + transport->max_rows;
    struct pst_transport_needs needs = {0};
    struct pst_error why = {0};
    pst_status status = PST_OK;
    void *base = NULL;
    uint64_t bytes;
    char *at;

    if (memory->needs == NULL) {
        return PST_OK;
    }
    needs = memory->needs(memory->context, rank);
    needs.transfers =
        needs.transfers < transport->max_requests ? needs.transfers : transport->max_requests;
    needs.meetings = needs.meetings < n_meetings ? needs.meetings : n_meetings;
    bytes = pst_sat_add(pst_sat_mul(aligned(needs.transfer_bytes), needs.transfers),
                        pst_sat_mul(aligned(needs.meeting_bytes), needs.meetings));
    if (bytes > 0) {
        status = device->pinned(transport->devices[rank], bytes, &base, &why);
    }
    if (status == PST_ERR_NOMEM) { /* room is made when it is needed, of the usual kind */
        if (transport->note != NULL) {
            transport->note(why.message);
        }
        return PST_OK;
    }
    if (status != PST_OK) {
        if (err != NULL) {
            *err = why;
        }
        return status;
    }
    at = base;
    for (uint32_t i = 0; i < needs.transfers && needs.transfer_bytes > 0; i++) {
        transport->requests[i].stage = take(&at, needs.transfer_bytes);
    }
    for (uint32_t i = 0; i < needs.meetings && needs.meeting_bytes > 0; i++) {
        transport->sums[i].stage = take(&at, needs.meeting_bytes);
        make_room(&transport->sums[i].stage_table,
                  needs.meeting_buffers * sizeof(struct pst_meet_part) + 1);
    }
    return PST_OK;
}

static void forget(struct stage *stage)
{
    if (stage->pinned) {
        *stage = (struct stage){0};
    }
}

void mpi_stages_forget(struct pst_transport *transport)
{
    for (uint32_t i = 0; i < transport->max_requests; i++) {
        forget(&transport->requests[i].stage);
    }
    for (uint32_t i = 0; i < mpi_n_sums(transport); i++) {
        forget(&transport->sums[i].stage);
    }
}

static void download(const struct pst_transport *transport, void *to, const void *from,
                     uint64_t bytes)
{
    if (bytes > 0) {
        transport->device->download(transport->devices[mpi_world->rank], to, from, bytes);
    }
}

static void upload(const struct pst_transport *transport, void *to, const void *from,
                   uint64_t bytes)
{
    if (bytes > 0) {
        transport->device->upload(transport->devices[mpi_world->rank], to, from, bytes);
    }
}

/* --- transfers ---------------------------------------------------------------------------------*/

void mpi_stage_transfer(struct pst_transport *transport, struct request *request)
{
    if (!transport->apart) {
        return;
    }
    make_room(&request->stage, request->bytes);
    request->far = request->data;
    request->data = request->stage.bytes;
    if (request->is_send) {
        download(transport, request->data, request->far, request->bytes);
    }
}

void mpi_unstage_transfer(struct pst_transport *transport, const struct request *request)
{
    if (transport->apart && !request->is_send) {
        upload(transport, request->far, request->data, request->bytes);
    }
}

/* --- meetings ----------------------------------------------------------------------------------*/

/* Copies what this rank brings of each part to host memory. The table has the parts, then the lists
   of sources. */
void mpi_stage_sum(struct pst_transport *transport, struct sum *sum)
{
    const struct pst_meeting *meeting = &sum->meeting;
    uint64_t bytes = 0, n_buffers = 0;
    struct pst_meet_part *near;
    const void **sources;
    char *at;

    if (!transport->apart) {
        return;
    }
    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        const uint32_t n = pst_meet_buffers(meeting, p);

        bytes = pst_sat_add(bytes, pst_sat_mul(meeting->parts[p].elems * sum->size, n));
        n_buffers += n;
    }
    make_room(&sum->stage, bytes);
    make_room(&sum->stage_table, n_buffers * sizeof *near + 1);
    near = (struct pst_meet_part *)(void *)sum->stage_table.bytes;
    sources = (const void **)(void *)(near + meeting->n_parts);
    at = sum->stage.bytes;
    for (uint32_t p = 0; p < meeting->n_parts; p++) {
        const struct pst_meet_part *far = &meeting->parts[p];

        near[p] = (struct pst_meet_part){.src = far->src != NULL ? sources : NULL,
                                         .elems = far->elems,
                                         .owner = far->owner,
                                         .to = far->to};
        for (uint32_t i = 0; i < (far->src != NULL ? meeting->n_src : 1); i++) {
            if (meeting->kind == PST_MEET_SUM || far->owner == sum->me) {
                download(transport, at, inorder_brought(far, i), far->elems * sum->size);
            }
            if (far->src != NULL) {
                *sources++ = at;
                at += far->elems * sum->size;
            }
        }
        near[p].dst = at;
        at += far->elems * sum->size;
    }
    sum->far = meeting->parts;
    sum->meeting.parts = near;
}

void mpi_unstage_sum(struct pst_transport *transport, const struct sum *sum)
{
    for (uint32_t p = 0; sum->far != NULL && p < sum->meeting.n_parts; p++) {
        if (inorder_gets(&sum->meeting, p, sum->me)) {
            upload(transport, sum->far[p].dst, sum->meeting.parts[p].dst,
                   sum->far[p].elems * sum->size);
        }
    }
}

static void release(struct stage *stage)
{
    if (!stage->pinned) {
        free(stage->bytes);
    }
}

void mpi_stages_free(struct pst_transport *transport)
{
    for (uint32_t i = 0; transport->requests != NULL && i < transport->max_requests; i++) {
        release(&transport->requests[i].stage);
    }
    for (uint32_t i = 0; transport->sums != NULL && i < mpi_n_sums(transport); i++) {
        release(&transport->sums[i].stage);
        release(&transport->sums[i].stage_table);
    }
}
