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
    const uint32_t n_sums = transport->max_reductions + 1;
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
    needs.sums = needs.sums < n_sums ? needs.sums : n_sums;
    bytes = pst_sat_add(pst_sat_mul(aligned(needs.transfer_bytes), needs.transfers),
                        pst_sat_mul(aligned(needs.sum_bytes), needs.sums));
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
    for (uint32_t i = 0; i < needs.sums && needs.sum_bytes > 0; i++) {
        transport->sums[i].stage = take(&at, needs.sum_bytes);
        make_room(&transport->sums[i].stage_table,
                  needs.sum_buffers * sizeof(struct pst_reduce_part));
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
    for (uint32_t i = 0; i <= transport->max_reductions; i++) {
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

/* --- sums --------------------------------------------------------------------------------------*/

void mpi_stage_parts(struct pst_transport *transport, struct sum *sum)
{
    struct pst_reduce_part *near;
    float *at;

    if (!transport->apart) {
        return;
    }
    make_room(&sum->stage, sum->elems * sizeof *at);
    make_room(&sum->stage_table, sum->n_parts * sizeof *near);
    near = (struct pst_reduce_part *)(void *)sum->stage_table.bytes;
    at = (float *)(void *)sum->stage.bytes;
    for (uint32_t p = 0; p < sum->n_parts; p++) {
        near[p] = (struct pst_reduce_part){at, sum->parts[p].elems};
        download(transport, at, sum->parts[p].data, near[p].elems * sizeof *at);
        at += near[p].elems;
    }
    sum->far_parts = sum->parts;
    sum->parts = near;
}

/* Sources, and behind them the result. */
void mpi_stage_sources(struct pst_transport *transport, struct sum *sum, uint32_t n_src)
{
    const float **near;
    float *at;

    if (!transport->apart) {
        return;
    }
    make_room(&sum->stage, pst_sat_mul(sum->elems * sizeof *at, n_src + UINT64_C(1)));
    make_room(&sum->stage_table, n_src * sizeof *near + 1);
    near = (const float **)(void *)sum->stage_table.bytes;
    at = (float *)(void *)sum->stage.bytes;
    for (uint32_t s = 0; s < n_src; s++, at += sum->elems) {
        near[s] = at;
        download(transport, at, sum->sources[s], sum->elems * sizeof *at);
    }
    sum->sources = near;
    sum->far_result = sum->result;
    sum->result = at;
}

void mpi_unstage_sum(struct pst_transport *transport, const struct sum *sum)
{
    for (uint32_t p = 0; sum->far_parts != NULL && p < sum->n_parts; p++) {
        upload(transport, sum->far_parts[p].data, sum->parts[p].data,
               sum->parts[p].elems * sizeof(float));
    }
    if (sum->far_result != NULL) {
        upload(transport, sum->far_result, sum->result, sum->elems * sizeof(float));
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
    for (uint32_t i = 0; transport->sums != NULL && i <= transport->max_reductions; i++) {
        release(&transport->sums[i].stage);
        release(&transport->sums[i].stage_table);
    }
}
