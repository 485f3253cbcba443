/* SPDX-License-Identifier: Apache-2.0 */
#include "balance.h"
#include "mem_plugin.h"

#include <string.h>

static void make_arrays(struct bp_work *work)
{
    const struct pst_global_in *in = work->in;

    CALL_TAKE(work->rows, work->n_rows);
    CALL_TAKE(work->first_row, in->n_stages + 1);
    CALL_TAKE(work->move_bytes, in->n_stages);
    CALL_TAKE(work->base, in->n_passes);
    CALL_TAKE(work->held, in->n_passes);
    CALL_TAKE(work->kept_held, in->n_passes);
    CALL_TAKE(work->kept_keeper, work->n_rows);
    CALL_TAKE(work->capacity, in->n_devices);
    CALL_TAKE(work->order, in->n_devices);
    CALL_TAKE(work->paired, in->n_devices);
}

/* Passes into rows, bytes into base. */
static void read_passes(struct bp_work *work)
{
    const struct pst_global_in *in = work->in;

    for (uint32_t d = 0; d < in->n_devices; d++) {
        const struct pst_global_device *device = pst_global_device_at(in, d);

        for (uint32_t i = 0; i < device->n_passes; i++) {
            const struct pst_global_pass *pass = pst_global_pass_at(in, device->first_pass + i);
            struct bp_row *row = &work->rows[work->first_row[pass->stage] + pass->microbatch];

            work->base[device->first_pass + i] = pass->live_bytes;
            if (pass->op == PST_PASS_F) {
                row->forward = i;
            } else if (pass->op == PST_PASS_B || pass->op == PST_PASS_BW) {
                row->backward = i;
            }
        }
        work->capacity[d] = device->capacity_bytes;
    }
}

void bp_begin(struct bp_work *work, const struct pst_global_in *in)
{
    uint32_t row = 0;

    memset(work, 0, sizeof *work);
    work->in = in;
    for (uint32_t s = 0; s < in->n_stages; s++) {
        work->n_rows += pst_global_stage_at(in, s)->n_microbatches;
    }
    make_arrays(work);
    for (uint32_t s = 0; s < in->n_stages; s++) {
        const struct pst_global_stage *stage = pst_global_stage_at(in, s);

        work->first_row[s] = row;
        for (uint32_t v = 0; v < stage->view->n_nodes; v++) {
            work->move_bytes[s] += stage->move_bytes[v];
        }
        for (uint32_t j = 0; j < stage->n_microbatches; j++, row++) {
            work->rows[row] = (struct bp_row){.stage = s,
                                              .microbatch = j,
                                              .keeper = stage->keepers[j],
                                              .fixed = stage->keepers[j] != PST_NONE};
        }
    }
    work->first_row[in->n_stages] = row;
    read_passes(work);
    bp_reset(work);
}

void bp_reset(struct bp_work *work)
{
    memcpy(work->held, work->base, work->in->n_passes * sizeof *work->held);
    for (uint32_t r = 0; r < work->n_rows; r++) {
        work->rows[r].keeper = work->rows[r].fixed ? work->rows[r].keeper : PST_NONE;
    }
    memset(work->paired, 0, work->in->n_devices * sizeof *work->paired);
}

uint64_t bp_peak(const struct bp_work *work, uint32_t device)
{
    const struct pst_global_device *d = pst_global_device_at(work->in, device);
    uint64_t most = 0;

    for (uint32_t i = 0; i < d->n_passes; i++) {
        uint64_t held = work->held[d->first_pass + i];

        most = held > most ? held : most;
    }
    return most;
}

/* --- moves -------------------------------------------------------------------------------------*/

/* Passes of another device, among those of all, that have a micro-batch; first > last: it must not
   have it. */
struct stay {
    uint32_t first, last;
};

static struct stay stay_of(const struct bp_work *work, const struct bp_row *row, uint32_t to)
{
    uint32_t begin = pst_global_device_at(work->in, to)->first_pass;
    struct stay stay = {1, 0};

    if (work->in->stay(work->in, row->stage, row->microbatch, to, &stay.first, &stay.last)) {
        stay.first += begin;
        stay.last += begin;
    }
    return stay;
}

static void move(struct bp_work *work, struct bp_row *row, uint32_t to)
{
    uint64_t bytes = work->move_bytes[row->stage];
    uint32_t own = pst_global_stage_at(work->in, row->stage)->device;
    uint32_t first = pst_global_device_at(work->in, own)->first_pass;
    struct stay stay = stay_of(work, row, to);

    row->keeper = to;
    for (uint32_t p = row->forward + 2; p + 2 <= row->backward; p++) {
        work->held[first + p] -= bytes;
    }
    for (uint32_t p = stay.first; p <= stay.last; p++) {
        work->held[p] += bytes;
    }
}

/* The most that the other device would hold with a micro-batch; UINT64_MAX: not allowed. */
static uint64_t most_with(const struct bp_work *work, const struct bp_row *row, uint32_t to)
{
    struct stay stay = stay_of(work, row, to);
    uint64_t most = 0;

    for (uint32_t p = stay.first; p <= stay.last; p++) {
        most = work->held[p] > most ? work->held[p] : most;
    }
    return stay.first <= stay.last ? most + work->move_bytes[row->stage] : UINT64_MAX;
}

/* The micro-batch that leaves: the one needed last, or the one that the other has most room for. */
enum rule { LAST_BACK, MOST_ROOM, RULES };

struct gift {
    uint32_t from, to;
    uint64_t from_bytes, to_bytes; /* what they may hold */
    enum rule rule;
};

/* Picks a micro-batch held in a pass that leaves the device; NULL: none fits the other one. */
static struct bp_row *pick(struct bp_work *work, const struct gift *gift, uint32_t p)
{
    struct bp_row *best = NULL;
    uint64_t best_most = 0;

    for (uint32_t s = 0; s < work->in->n_stages; s++) {
        if (pst_global_stage_at(work->in, s)->device != gift->from || work->move_bytes[s] == 0) {
            continue;
        }
        for (uint32_t r = work->first_row[s]; r < work->first_row[s + 1]; r++) {
            struct bp_row *row = &work->rows[r];
            uint64_t most;

            if (row->keeper != PST_NONE || row->forward + 2 > p || p + 2 > row->backward) {
                continue;
            }
            most = most_with(work, row, gift->to);
            if (most <= gift->to_bytes &&
                (best == NULL || (gift->rule == MOST_ROOM && most < best_most) ||
                 ((gift->rule == LAST_BACK || most == best_most) &&
                  row->backward > best->backward))) {
                best = row;
                best_most = most;
            }
        }
    }
    return best;
}

static void keep_state(struct bp_work *work)
{
    memcpy(work->kept_held, work->held, work->in->n_passes * sizeof *work->held);
    for (uint32_t r = 0; r < work->n_rows; r++) {
        work->kept_keeper[r] = work->rows[r].keeper;
    }
}

static void restore_state(struct bp_work *work)
{
    memcpy(work->held, work->kept_held, work->in->n_passes * sizeof *work->held);
    for (uint32_t r = 0; r < work->n_rows; r++) {
        work->rows[r].keeper = work->kept_keeper[r];
    }
}

static bool give_by(struct bp_work *work, const struct gift *gift)
{
    const struct pst_global_device *device = pst_global_device_at(work->in, gift->from);

    if (bp_peak(work, gift->to) > gift->to_bytes) {
        return false;
    }
    for (uint32_t p = 0; p < device->n_passes; p++) {
        while (work->held[device->first_pass + p] > gift->from_bytes) {
            struct bp_row *row = pick(work, gift, p);

            if (row == NULL) {
                return false;
            }
            move(work, row, gift->to);
        }
    }
    return true;
}

/* From one device to another until both hold at most so many bytes. False: not possible; then
   nothing has changed. The state before is kept. */
static bool give(struct bp_work *work, uint32_t from, uint32_t to, uint64_t from_bytes,
                 uint64_t to_bytes)
{
    struct gift gift = {from, to, from_bytes, to_bytes, LAST_BACK};

    keep_state(work);
    for (; gift.rule < RULES; gift.rule++) {
        if (give_by(work, &gift)) {
            return true;
        }
        restore_state(work);
    }
    return false;
}

/* --- pairs -------------------------------------------------------------------------------------*/

/* The bytes above a device's capacity; below 0: room. Bytes are far below 2^63. */
static int64_t excess(const struct bp_work *work, uint32_t device)
{
    uint64_t capacity = work->capacity[device] > INT64_MAX ? INT64_MAX : work->capacity[device];

    return (int64_t)bp_peak(work, device) - (int64_t)capacity;
}

/* Devices by excess, most first; equal ones by number. */
static void sort_devices(struct bp_work *work)
{
    for (uint32_t i = 0; i < work->in->n_devices; i++) {
        uint32_t at = i;

        for (; at > 0 && excess(work, work->order[at - 1]) < excess(work, i); at--) {
            work->order[at] = work->order[at - 1];
        }
        work->order[at] = i;
    }
}

bool bp_fit(struct bp_work *work)
{
    uint32_t n = work->in->n_devices;

    sort_devices(work);
    for (uint32_t i = 0; i < n && excess(work, work->order[i]) > 0; i++) {
        uint32_t from = work->order[i];
        bool done = false;

        for (uint32_t k = n; !done && k-- > i + 1;) {
            uint32_t to = work->order[k];

            if (!work->paired[to] && excess(work, to) < 0) {
                done = give(work, from, to, work->capacity[from], work->capacity[to]);
                work->paired[to] = done;
            }
        }
        if (!done) {
            return false;
        }
    }
    return true;
}

/* The least bytes to which the two can be brought. */
static void level_pair(struct bp_work *work, uint32_t from, uint32_t to)
{
    uint64_t low = 0, high = bp_peak(work, from); /* as it is: possible */
    uint64_t other = bp_peak(work, to);

    if (high <= other) {
        return;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (give(work, from, to, middle, middle)) {
            uint64_t a = bp_peak(work, from), b = bp_peak(work, to);

            high = a > b ? a : b; /* often less than was asked for */
            restore_state(work);
        } else {
            low = middle + 1;
        }
    }
    (void)give(work, from, to, high, high);
}

void bp_level(struct bp_work *work)
{
    uint32_t n = work->in->n_devices;

    for (uint32_t d = 0; d < n; d++) {
        work->capacity[d] = 0;
    }
    sort_devices(work);
    for (uint32_t i = 0; i < n / 2; i++) {
        level_pair(work, work->order[i], work->order[n - 1 - i]);
    }
}
