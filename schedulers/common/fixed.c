/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of schedulers with fixed orders: where stages sit, what is asked, what is refused.
 */
#include "fixed.h"

#include <string.h>

pst_status fixed_create(const struct pst_host *host, const void *config,
                        const struct fixed_rules *rules, void **ret_self)
{
    struct fixed *self = host->alloc(host, sizeof *self, _Alignof(struct fixed));

    if (self == NULL) {
        return PST_ERR_NOMEM;
    }
    *self = (struct fixed){.host = host, .config = config, .rules = rules};
    *ret_self = self;
    return PST_OK;
}

uint32_t fixed_chunks_of(const void *config)
{
    return (uint32_t)((const struct fixed_chunks *)config)->chunks;
}

static uint32_t chunks_of(const struct fixed *self)
{
    if (self->rules->chunks != NULL) {
        return self->rules->chunks(self->config);
    }
    return self->rules->placement == FIXED_VSHAPE ? 2 : 1;
}

static uint32_t least_of(const struct fixed *self, uint32_t n_devices)
{
    return self->rules->least == NULL ? 1 : self->rules->least(n_devices);
}

static pst_status add_copy(const struct fixed *self, uint32_t n_devices,
                           struct pst_topology *ret_topology)
{
    if (!PST_HAS(ret_topology, n_copies)) {
        return pst_failf(self->host, PST_ERR_UNSUPPORTED,
                         "%s runs two copies of all stages, which this host does not support",
                         self->rules->id);
    }
    if (n_devices % 2 != 0) {
        return pst_failf(
            self->host, PST_ERR_INFEASIBLE,
            "%u devices: %s needs an even number, because its two directions meet in the middle",
            n_devices, self->rules->id);
    }
    ret_topology->n_copies = 2;
    return PST_OK;
}

pst_status fixed_topology(void *self_, uint32_t n_devices, struct pst_topology *ret_topology)
{
    const struct fixed *self = self_;
    uint32_t v = chunks_of(self);
    pst_status status = order_topology(self_, n_devices, ret_topology);

    ret_topology->n_stages = v == 1 ? 0 : v * n_devices;
    ret_topology->min_microbatches = least_of(self, n_devices);
    return status == PST_OK && self->rules->two_way ? add_copy(self, n_devices, ret_topology)
                                                    : status;
}

uint32_t fixed_place(uint32_t placement, uint32_t p, uint32_t s)
{
    switch (placement) {
    case FIXED_LOOPED:
        return s % p;
    case FIXED_VSHAPE:
        return s / p % 2 == 0 ? s % p : p - 1 - s % p;
    default:
        return s;
    }
}

static uint32_t device_of(void *self_, uint32_t n_devices, uint32_t n_stages, uint32_t stage)
{
    const struct fixed *self = self_;

    (void)n_stages;
    return fixed_place(self->rules->placement, n_devices, stage);
}

uint32_t fixed_stage(const struct fixed_question *question, uint32_t d, uint32_t chunk)
{
    const bool up = question->self->rules->placement == FIXED_VSHAPE && chunk % 2 == 1;

    return chunk * question->p + (up ? question->p - 1 - d : d);
}

/* Chunks sit where device_of() put them. */
static void require_places(const struct fixed_question *question)
{
    const struct fixed *self = question->self;

    for (uint32_t s = 0; question->v > 1 && s < question->in->n_stages; s++) {
        uint32_t device = pst_schedule_stage_at(question->in, s)->device;
        uint32_t wanted = fixed_place(self->rules->placement, question->p, s);

        if (device != wanted) {
            call_end(pst_failf(self->host, PST_ERR_UNSUPPORTED,
                               "stage %u is on device %u; the order of %s needs it on device %u", s,
                               device, self->rules->id, wanted));
        }
    }
}

static bool rounds_fit(uint32_t m, uint32_t p)
{
    return m < p || m % (m / p) == 0;
}

/*
 * Micro-batches of one round where devices go round their chunks: m div max(1, m div p), the same
 * in every round. One chunk needs no rounds: any m will do.
 */
static void find_rounds(struct fixed_question *question)
{
    uint32_t m = question->m, p = question->p, fewer = m, more = m;

    if (question->self->rules->rounds && question->v > 1 && !rounds_fit(m, p)) {
        while (!rounds_fit(fewer, p)) {
            fewer--;
        }
        while (!rounds_fit(more, p)) {
            more++;
        }
        call_end(pst_failf(question->self->host, PST_ERR_INFEASIBLE,
                           "%u micro-batches on %u devices: %s needs %u rounds with equal numbers "
                           "of micro-batches; %u or %u would do",
                           m, p, question->self->rules->id, m / p, fewer, more));
    }
    question->r = m < p ? m : m / (m / p);
}

static struct fixed_question ask(const struct fixed *self, const struct pst_schedule_in *in)
{
    uint32_t v = chunks_of(self), least, copies = self->rules->two_way ? 2 : 1;
    struct fixed_question question = {.self = self, .in = in, .p = in->n_stages / v, .v = v};

    question.m = order_require_chain(self->host, self->rules->id, in, v);
    require_places(&question);
    least = least_of(self, question.p);
    if (question.m * copies < least) {
        call_end(pst_failf(self->host, PST_ERR_INFEASIBLE,
                           "%u micro-batches on %u devices: %s needs at least %u",
                           question.m * copies, question.p, self->rules->id, least));
    }
    find_rounds(&question);
    return question;
}

static pst_status schedule(void *self_, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    const struct fixed *self = self_;
    struct fixed_question question = ask(self, in);
    struct order order;

    order_init(&order, in);
    if (self->rules->build != NULL) {
        self->rules->build(&question, &order);
    }
    for (uint32_t d = 0; self->rules->build == NULL && d < question.p; d++) {
        struct fixed_hand hand;

        fixed_hand_init(&hand, &question, &order, d);
        self->rules->deal(&hand);
    }
    order_require_room(self->host, self->rules->id, &order);
    return order_emit(&order, out);
}

CALL_FUNCTION(call_schedule, schedule, struct pst_schedule_in, struct pst_schedule_out)

pst_status fixed_schedule(void *self, const struct pst_schedule_in *in,
                          struct pst_schedule_out *out)
{
    return call_schedule(self, in, out);
}

const struct pst_scheduler fixed_scheduler = {
    .size = sizeof fixed_scheduler,
    .topology = fixed_topology,
    .device_of = device_of,
    .schedule = fixed_schedule,
};

const void *fixed_get_interface(const char *id)
{
    return strcmp(id, PST_SCHEDULER) == 0 ? &fixed_scheduler : NULL;
}
