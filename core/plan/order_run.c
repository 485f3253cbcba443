/* SPDX-License-Identifier: Apache-2.0
 *
 * A device runs until a pass lacks something, then sleeps at the pass that makes it; the end of
 * that pass wakes it. Every need is looked at once, so time is linear.
 *
 * Of an order that cannot be satisfied the way is shown from a device that waits to the one that it
 * waits for, until a device comes again or what is needed is in no list.
 */
#include "plan/order_run.h"

#include <stdio.h>
#include <string.h>

/* The next pass of a device. */
struct front {
    uint32_t position;
    uint32_t need;                   /* the first that has not been met */
    struct pst_order_place decisive; /* the need that came last */
    uint64_t ready_ns, clock_ns;
    bool arrived;  /* all needs are met; others that begin the pass with it are to come */
    uint32_t next; /* device that sleeps at the same pass, or PST_NONE */
};

struct work {
    struct pst_order_run *run;
    struct pst_arena arena;
    struct front *fronts; /* [n_devices] */
    uint32_t **sleeper;   /* [device][position] the first device that sleeps there, or PST_NONE */
    uint32_t *awake;      /* devices to go on with */
    uint32_t n_awake;
};

static const struct pst_order_place nowhere = {PST_NONE, PST_NONE};

static const struct pst_pass *next_pass(const struct work *w, uint32_t device)
{
    return &w->run->passes[device][w->fronts[device].position];
}

static void init_work(struct work *w, struct pst_arena *arena)
{
    struct pst_order_run *run = w->run;
    const uint32_t n = run->n_devices;

    run->end_ns = pst_arena_array(arena, n, sizeof *run->end_ns);
    run->before = run->tells_before ? pst_arena_array(arena, n, sizeof *run->before) : NULL;
    w->fronts = pst_arena_array(&w->arena, n, sizeof *w->fronts);
    w->sleeper = pst_arena_array(&w->arena, n, sizeof *w->sleeper);
    w->awake = pst_arena_array(&w->arena, n, sizeof *w->awake);
    for (uint32_t d = n; d-- > 0;) {
        const uint32_t n_passes = run->n_passes[d];

        run->end_ns[d] = pst_arena_array(arena, n_passes, sizeof **run->end_ns);
        if (run->tells_before) {
            run->before[d] = pst_arena_array(arena, n_passes, sizeof **run->before);
        }
        w->sleeper[d] = pst_arena_none(&w->arena, n_passes);
        w->fronts[d].decisive = nowhere;
        w->awake[w->n_awake++] = d;
    }
}

/* Goes on through the needs of the next pass; false: the device sleeps now. */
static bool gather_needs(struct work *w, uint32_t device)
{
    struct front *front = &w->fronts[device];
    struct pst_order_run *run = w->run;
    struct pst_order_need need;

    for (; run->need(run->of, device, next_pass(w, device), front->need, &need); front->need++) {
        const struct pst_order_place at = need.at;
        uint64_t there;

        if (at.position == PST_NONE) {
            return false;
        }
        if (at.position >= w->fronts[at.device].position) {
            front->next = w->sleeper[at.device][at.position];
            w->sleeper[at.device][at.position] = device;
            return false;
        }
        run->n_transfers += at.device != device;
        there = run->end_ns[at.device][at.position] + need.latency_ns;
        if (front->decisive.device == PST_NONE || there > front->ready_ns) {
            front->ready_ns = there;
            front->decisive = at;
        }
    }
    return true;
}

static void run_pass(struct work *w, uint32_t device)
{
    struct front *front = &w->fronts[device];
    const uint32_t at = front->position;
    const bool waited = front->ready_ns > front->clock_ns;

    if (w->run->tells_before) {
        w->run->before[device][at] =
            waited || at == 0 ? front->decisive : (struct pst_order_place){device, at - 1};
    }
    front->clock_ns = (waited ? front->ready_ns : front->clock_ns) +
                      w->run->duration_ns(w->run->of, next_pass(w, device));
    w->run->end_ns[device][at] = front->clock_ns;
    front->position++;
    front->need = 0;
    front->arrived = false;
    front->ready_ns = 0;
    front->decisive = nowhere;
    for (uint32_t d = w->sleeper[device][at]; d != PST_NONE; d = w->fronts[d].next) {
        w->awake[w->n_awake++] = d;
    }
}

static const uint32_t *group_of(const struct work *w, uint32_t device, uint32_t *ret_n)
{
    return w->run->together != NULL ? w->run->together(w->run->of, next_pass(w, device), ret_n)
                                    : NULL;
}

static bool has_arrived(const struct work *w, uint32_t device, const struct pst_pass *pass)
{
    const struct pst_pass *next = next_pass(w, device);

    return w->fronts[device].arrived && next->op == pass->op && next->stage == pass->stage &&
           next->microbatch == pass->microbatch;
}

/* A device of the group that has not arrived at the device's pass; PST_NONE: all have. Devices come
   mostly in their order, so the last is the first to look at. */
static uint32_t find_absent(const struct work *w, uint32_t device, const uint32_t *group,
                            uint32_t n)
{
    while (n > 0 && has_arrived(w, group[n - 1], next_pass(w, device))) {
        n--;
    }
    return n > 0 ? group[n - 1] : PST_NONE;
}

/* All begin with the last of them, and end alike. */
static void run_together(struct work *w, uint32_t device, const uint32_t *group, uint32_t n)
{
    struct pst_order_place decisive = nowhere;
    uint64_t begin_ns = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct front *front = &w->fronts[group[i]];
        const bool waited = front->ready_ns > front->clock_ns;
        const uint64_t here_ns = waited ? front->ready_ns : front->clock_ns;

        if (i == 0 || here_ns > begin_ns) {
            begin_ns = here_ns;
            decisive = waited || front->position == 0
                           ? front->decisive
                           : (struct pst_order_place){group[i], front->position - 1};
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        w->fronts[group[i]].ready_ns = begin_ns;
        w->fronts[group[i]].decisive = decisive;
        run_pass(w, group[i]);
        if (group[i] != device) {
            w->awake[w->n_awake++] = group[i];
        }
    }
}

/* The needs of the device's next pass are met; false: others begin it with this one. */
static bool begin_pass(struct work *w, uint32_t device)
{
    uint32_t n = 0;
    const uint32_t *group = group_of(w, device, &n);

    if (group == NULL) {
        run_pass(w, device);
        return true;
    }
    w->fronts[device].arrived = true;
    if (find_absent(w, device, group, n) != PST_NONE) {
        return false;
    }
    run_together(w, device, group, n);
    return true;
}

/* --- orders that cannot be satisfied ----------------------------------------------------------*/

static const char *name_pass(const struct pst_pass *pass, char text[96])
{
    snprintf(text, 96, "%s of micro-batch %u on stage %u",
             pst_instr_name(pass->op == PST_PASS_BW ? PST_PASS_B : pass->op), pass->microbatch,
             pass->stage);
    return text;
}

/* The need at which a device sleeps, or the pass of a device for which it waits. */
static struct pst_order_need missing_need(const struct work *w, uint32_t device)
{
    struct pst_order_need need = {.at = nowhere};
    uint32_t n = 0;

    if (w->fronts[device].arrived) {
        const uint32_t *group = group_of(w, device, &n);
        const uint32_t absent = find_absent(w, device, group, n);

        if (w->fronts[absent].position < w->run->n_passes[absent]) {
            need.at = (struct pst_order_place){absent, w->fronts[absent].position};
        }
        need.pass = *next_pass(w, device);
        return need;
    }
    w->run->need(w->run->of, device, next_pass(w, device), w->fronts[device].need, &need);
    return need;
}

static pst_status fail_stuck(const struct work *w, uint32_t d, struct pst_error *err)
{
    struct pst_order_need need = missing_need(w, d);
    char needed[96], own[96];
    uint32_t first;

    /* Everyone who waits is followed by one other; after n steps it is within a circle. */
    for (uint32_t i = 0; i < w->run->n_devices && need.at.position != PST_NONE; i++) {
        d = need.at.device;
        need = missing_need(w, d);
    }
    if (need.at.position == PST_NONE) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "%sthe order of passes can never be satisfied: %s waits for %s, which is "
                        "in no list",
                        w->run->rule, name_pass(next_pass(w, d), own),
                        name_pass(&need.pass, needed));
    }
    pst_fail(err, PST_ERR_BUG, "plan.illegal",
             "%sthe order of passes can never be satisfied: devices wait for each other in a "
             "circle",
             w->run->rule);
    first = d;
    do {
        pst_error_detail(err, "device %u: %s waits for %s on device %u, where it comes later\n", d,
                         name_pass(next_pass(w, d), own), name_pass(&need.pass, needed),
                         need.at.device);
        d = need.at.device;
        need = missing_need(w, d);
    } while (d != first);
    return PST_ERR_BUG;
}

pst_status pst_order_run(struct pst_order_run *run, struct pst_arena *arena, struct pst_error *err)
{
    struct work w = {.run = run};
    pst_status status = PST_OK;

    init_work(&w, arena);
    while (w.n_awake > 0) {
        const uint32_t d = w.awake[--w.n_awake];

        while (w.fronts[d].position < run->n_passes[d] && gather_needs(&w, d) &&
               begin_pass(&w, d)) {
        }
    }
    for (uint32_t d = 0; d < run->n_devices && status == PST_OK; d++) {
        status = w.fronts[d].position < run->n_passes[d] ? fail_stuck(&w, d, err) : PST_OK;
    }
    pst_arena_finish(&w.arena);
    return status;
}
