/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of an order, what they hold at most, and what all chain schedulers ask of a question.
 */
#include "order.h"

#include <inttypes.h>
#include <string.h>

void order_init(struct order *order, const struct pst_schedule_in *in)
{
    *order = (struct order){.in = in};
    CALL_TAKE(order->lists, in->n_devices);
}

void order_finish(struct order *order)
{
    for (uint32_t d = 0; order->lists != NULL && d < order->in->n_devices; d++) {
        call_free(order->lists[d].ops);
    }
    call_free(order->lists);
    memset(order, 0, sizeof *order);
}

void order_add(struct order *order, uint32_t device, uint32_t pass, uint32_t stage,
               uint32_t microbatch)
{
    struct order_list *list = &order->lists[device];

    CALL_MAKE_ROOM(list->ops, list->n, list->room);
    list->ops[list->n++] = (struct order_op){stage, microbatch, (uint8_t)pass, 0};
}

void order_add_backward(struct order *order, bool split, uint32_t device, uint32_t stage,
                        uint32_t microbatch)
{
    order_add(order, device, split ? PST_PASS_B : PST_PASS_BW, stage, microbatch);
    if (split) {
        order_add(order, device, PST_PASS_W, stage, microbatch);
    }
}

void order_one_f_one_b(struct order *order, bool split, uint32_t s, uint32_t ahead, uint32_t slices)
{
    const struct pst_schedule_stage *stage = pst_schedule_stage_at(order->in, s);

    for (uint32_t n = 0; n < stage->n_microbatches + ahead; n++) {
        const uint32_t back = n - ahead, slice = back % slices;

        if (n < stage->n_microbatches) {
            order_add(order, stage->device, PST_PASS_F, s, n);
        }
        if (n >= ahead) {
            order_add_backward(order, split, stage->device, s, back - slice + (slices - 1 - slice));
        }
    }
}

pst_status order_emit(const struct order *order, struct pst_schedule_out *out)
{
    uint32_t d, i;
    pst_status status = PST_OK;

    for (d = 0; d < order->in->n_devices; d++) {
        const struct order_list *list = &order->lists[d];

        for (i = 0; status == PST_OK && i < list->n; i++) {
            const struct order_op *op = &list->ops[i];

            if (op->paired != 0 && i + 1 < list->n) {
                const struct order_op *back = &list->ops[++i];

                status = out->pair(out, d, op->stage, op->microbatch, back->pass, back->stage,
                                   back->microbatch);
            } else {
                status = out->emit(out, d, op->pass, op->stage, op->microbatch);
            }
        }
    }
    return status;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t order_gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

uint64_t order_peak_bytes(const struct order *order, uint32_t device)
{
    const struct order_list *list = &order->lists[device];
    uint64_t now = 0, most = 0;
    uint32_t i;

    for (i = 0; i < list->n; i++) {
        const struct pst_schedule_stage *stage =
            pst_schedule_stage_at(order->in, list->ops[i].stage);

        switch (list->ops[i].pass) {
        case PST_PASS_F:
            now = add(now, stage->saved_bytes);
            most = now > most ? now : most;
            break;
        case PST_PASS_B:
            now -= stage->saved_bytes - stage->saved_weight_bytes;
            break;
        case PST_PASS_W:
            now -= stage->saved_weight_bytes;
            break;
        case PST_PASS_BW:
            now -= stage->saved_bytes;
            break;
        default:
            break;
        }
    }
    return most;
}

/* Every device has `wanted` stages, or none where a stage less than devices is as good. */
static void require_stages(const struct pst_host *host, const char *scheduler,
                           const struct pst_schedule_in *in, uint32_t wanted)
{
    for (uint32_t d = 0; d < in->n_devices; d++) {
        uint32_t n = 0;

        for (uint32_t s = 0; s < in->n_stages; s++) {
            n += pst_schedule_stage_at(in, s)->device == d;
        }
        if (n != wanted && (n != 0 || wanted > 1)) {
            call_end(pst_failf(host, PST_ERR_UNSUPPORTED,
                               "device %u has %u of the %u stages: %s runs %u per device, %u in "
                               "all; use a partitioner that makes that many",
                               d, n, in->n_stages, scheduler, wanted, wanted * in->n_devices));
        }
    }
}

uint32_t order_require_chain(const struct pst_host *host, const char *scheduler,
                             const struct pst_schedule_in *in, uint32_t stages_per_device)
{
    uint32_t m = pst_schedule_stage_at(in, 0)->n_microbatches;

    require_stages(host, scheduler, in, stages_per_device);
    for (uint32_t s = 1; s < in->n_stages; s++) {
        uint32_t n = pst_schedule_stage_at(in, s)->n_microbatches;

        if (n != m) {
            call_end(pst_failf(host, PST_ERR_UNSUPPORTED,
                               "stage %u has %u micro-batches, stage 0 has %u: %s needs one size "
                               "for all stages",
                               s, n, m, scheduler));
        }
    }
    return m;
}

pst_status order_topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology)
{
    (void)self;
    (void)n_devices;
    ret_topology->n_stages = 0;
    ret_topology->version_rule = PST_VERSION_SYNC;
    ret_topology->min_microbatches = 1;
    ret_topology->microbatch_multiple = 1;
    return PST_OK;
}

void order_require_room(const struct pst_host *host, const char *scheduler,
                        const struct order *order)
{
    for (uint32_t d = 0; d < order->in->n_devices; d++) {
        uint64_t room = order->in->activation_bytes[d], need;

        need = room == UINT64_MAX ? 0 : order_peak_bytes(order, d);
        if (need > room) {
            call_end(pst_failf(host, PST_ERR_INFEASIBLE,
                               "device %u would hold %" PRIu64 " bytes of activations and has room "
                               "for %" PRIu64 "; another scheduler may need less, the order of %s "
                               "is fixed",
                               d, need, room, scheduler));
        }
    }
}
