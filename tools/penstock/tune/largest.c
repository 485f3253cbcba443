/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/largest.h"

#define MOST_REFUSED 1024 /* of which is known that they do not fit */

/* A search that runs. */
struct state {
    const struct pst_largest *search;
    uint32_t low; /* the largest that fits */
    uint32_t n_refused;
    uint32_t refused[MOST_REFUSED];
};

static bool is_refused(const struct state *s, uint32_t size)
{
    for (uint32_t i = 0; i < s->n_refused; i++) {
        if (s->refused[i] == size) {
            return true;
        }
    }
    return false;
}

static pst_status try_size(struct state *s, uint32_t size, bool *ret_fits)
{
    pst_status status = s->search->try_size(s->search->context, size, ret_fits);

    if (status != PST_OK) {
        return status;
    }
    if (*ret_fits) {
        s->low = size;
    } else if (s->n_refused < MOST_REFUSED) {
        s->refused[s->n_refused++] = size;
    }
    return PST_OK;
}

/* The least size above low that is known not to fit; 0: none. */
static uint32_t next_refused(const struct state *s)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < s->n_refused; i++) {
        if (s->refused[i] > s->low && (next == 0 || s->refused[i] < next)) {
            next = s->refused[i];
        }
    }
    return next;
}

/* On from low, until something above it does not fit. */
static pst_status double_up(struct state *s)
{
    uint32_t limit = s->search->limit;
    pst_status status = PST_OK;

    while (status == PST_OK && s->low < limit && next_refused(s) == 0) {
        uint32_t size = s->low == 0 ? 1 : s->low > limit / 2 ? limit : 2 * s->low;
        bool fits;

        status = try_size(s, size, &fits);
    }
    return status;
}

/* Halves what lies between low and the first above it that does not fit. */
static pst_status halve(struct state *s)
{
    uint32_t high = next_refused(s);
    pst_status status = PST_OK;

    while (status == PST_OK && high > s->low + 1) {
        bool fits = false;
        uint32_t middle = s->low + (high - s->low) / 2;

        status = try_size(s, middle, &fits);
        high = fits ? high : middle;
    }
    return status;
}

/* *ret_found: some size beyond fits, and is the new low. */
static pst_status look_beyond(struct state *s, bool *ret_found)
{
    static const uint32_t factors[] = {200000, 178180, 158740, 141421, 125992, 112246};
    uint32_t low = s->low, limit = s->search->limit;
    pst_status status = PST_OK;

    *ret_found = false;
    for (uint32_t i = 0; status == PST_OK && !*ret_found && i < sizeof factors / sizeof *factors;
         i++) {
        uint64_t size = (uint64_t)low * factors[i] / 100000;

        size = size < limit ? size : limit;
        if (size > low + 1 && !is_refused(s, (uint32_t)size)) {
            status = try_size(s, (uint32_t)size, ret_found);
        }
    }
    return status;
}

pst_status pst_largest_search(const struct pst_largest *search, uint32_t *ret_size,
                              bool *ret_bounded)
{
    struct state s = {.search = search, .low = 0};
    pst_status status = PST_OK;
    bool found = true;

    while (status == PST_OK && found) {
        found = false;
        status = double_up(&s);
        if (status == PST_OK && s.low > 0) {
            status = halve(&s);
        }
        if (status == PST_OK && s.low > 0) {
            status = look_beyond(&s, &found);
        }
    }
    if (status == PST_OK) {
        *ret_size = s.low;
        *ret_bounded = s.low > 0 && is_refused(&s, s.low + 1);
    }
    return status;
}
