/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/joint.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

#define ELITE       16u /* points that others are made from */
#define NEAR        4u  /* of them, whose variants come before the others */
#define FEW         8u  /* points that a round had better have */
#define SAMPLE      8u  /* one in so many points is of the first, even sample, */
#define SAMPLE_MOST 200u
#define EXPLORE     8u  /* one in so many rounds is of chance alone, */
#define LEADERS     4u  /* one of variants of leaders */
#define IDLE_MOST   64u /* rounds of chance that come to no new point: there is hardly one left */
#define DRAWS       8u  /* for each point of such a round */

/* A point that was tried: which of its dimensions have been varied. */
struct elite {
    uint32_t point, varied;
    bool coupled;
    struct pst_score score;
};

struct search {
    const struct pst_joint *joint;
    uint64_t n_points;
    uint32_t stride[PST_JOINT_DIMS];
    uint32_t *seen; /* points + 1, hashed; tried, of this round, or hopeless */
    uint32_t capacity, n_seen;
    uint32_t round[PST_JOINT_ROUND], n_round;
    struct elite elite[ELITE];
    uint32_t n_elite;
    /* [size] For each first value of a dimension the best point with it or a variant of it: another
       variant there may be better than all the elite. */
    struct elite *leader[PST_JOINT_DIMS];
    uint64_t drawn; /* random numbers */
    struct pst_joint_found found;
};

/* --- points ------------------------------------------------------------------------------------*/

static uint32_t value_of(const struct search *search, uint32_t point, uint32_t dim)
{
    return point / search->stride[dim] % search->joint->size[dim];
}

static uint32_t with_value(const struct search *search, uint32_t point, uint32_t dim,
                           uint32_t value)
{
    return point - (value_of(search, point, dim) - value) * search->stride[dim];
}

static uint32_t first_of(const struct pst_joint *joint, uint32_t dim, uint32_t value)
{
    return joint->group[dim] == NULL ? value : joint->group[dim][value];
}

static uint32_t draw(struct search *search, uint32_t below)
{
    const struct pst_philox words = pst_philox(search->joint->seed, 0, search->drawn++);

    return (uint32_t)(((uint64_t)words.v[0] * below) >> 32);
}

/* --- which have been looked at -----------------------------------------------------------------*/

static uint32_t *slot_of(uint32_t *seen, uint32_t capacity, uint32_t point)
{
    uint32_t at = (uint32_t)((point * 0x9E3779B97F4A7C15u) >> 32) & (capacity - 1);

    while (seen[at] != 0 && seen[at] != point + 1) {
        at = (at + 1) & (capacity - 1);
    }
    return &seen[at];
}

static void grow(struct search *search)
{
    const uint32_t capacity = search->capacity == 0 ? 1024 : 2 * search->capacity;
    uint32_t *seen = pst_alloc(capacity, sizeof *seen);

    for (uint32_t i = 0; i < search->capacity; i++) {
        if (search->seen[i] != 0) {
            *slot_of(seen, capacity, search->seen[i] - 1) = search->seen[i];
        }
    }
    free(search->seen);
    search->seen = seen;
    search->capacity = capacity;
}

/* Adds a point to the round, unless it is known, hopeless, or there is no room. */
static void propose(struct search *search, uint32_t point)
{
    const struct pst_joint *joint = search->joint;
    uint32_t *slot;

    if (search->n_round == PST_JOINT_ROUND ||
        search->found.n_tried + search->n_round >= joint->budget) {
        return;
    }
    if (2 * search->n_seen >= search->capacity) {
        grow(search);
    }
    slot = slot_of(search->seen, search->capacity, point);
    if (*slot != 0) {
        return;
    }
    *slot = point + 1;
    search->n_seen++;
    if (joint->hopeless != NULL && joint->hopeless(joint->context, point)) {
        search->found.n_hopeless++;
        return;
    }
    search->round[search->n_round++] = point;
}

/* --- rounds ------------------------------------------------------------------------------------*/

/* Of equal ones the one of the smaller number, so that the order of rounds does not matter. */
static bool is_better(const struct elite *a, const struct elite *b)
{
    const int order = pst_score_compare(&a->score, &b->score);

    return order > 0 || (order == 0 && a->point < b->point);
}

/* Points whose strategies come to the same plan are good for nothing new. */
static bool is_known_plan(const struct search *search, const struct elite *elite)
{
    for (uint32_t e = 0; e < search->n_elite; e++) {
        if (pst_score_compare(&search->elite[e].score, &elite->score) == 0) {
            return true;
        }
    }
    return false;
}

static void keep_elite(struct search *search, struct elite elite)
{
    uint32_t at = search->n_elite;

    while (at > 0 && is_better(&elite, &search->elite[at - 1])) {
        at--;
    }
    if (at == ELITE || is_known_plan(search, &elite)) {
        return;
    }
    search->n_elite += search->n_elite < ELITE;
    memmove(&search->elite[at + 1], &search->elite[at],
            (search->n_elite - at - 1) * sizeof *search->elite);
    search->elite[at] = elite;
}

static void keep_leaders(struct search *search, struct elite elite)
{
    const struct pst_joint *joint = search->joint;

    for (uint32_t d = 0; d < joint->n_dims; d++) {
        struct elite *leader =
            &search->leader[d][first_of(joint, d, value_of(search, elite.point, d))];

        if (pst_score_compare(&elite.score, &leader->score) > 0) {
            *leader = elite;
        }
    }
}

static pst_status end_round(struct search *search, struct pst_error *err)
{
    const struct pst_joint *joint = search->joint;
    const uint32_t n = search->n_round;
    struct pst_score scores[PST_JOINT_ROUND];
    pst_status st;

    if (n == 0) {
        return PST_OK;
    }
    st = joint->try_all(joint->context, search->round, n, scores, err);
    search->n_round = 0;
    if (st != PST_OK || joint->over(joint->context)) {
        return st;
    }
    search->found.n_tried += n;
    for (uint32_t i = 0; i < n; i++) {
        const struct elite elite = {.point = search->round[i], .score = scores[i]};

        keep_elite(search, elite);
        keep_leaders(search, elite);
    }
    return PST_OK;
}

static bool is_through(const struct search *search)
{
    return search->joint->over(search->joint->context) ||
           search->found.n_tried >= search->joint->budget;
}

/* --- all ---------------------------------------------------------------------------------------*/

static pst_status try_every_point(struct search *search, struct pst_error *err)
{
    pst_status st = PST_OK;

    propose(search, search->joint->start); /* one by which others may be hopeless */
    for (uint64_t point = 0; point < search->n_points && st == PST_OK && !is_through(search);) {
        while (point < search->n_points && search->n_round < PST_JOINT_ROUND) {
            propose(search, (uint32_t)point++);
        }
        st = end_round(search, err);
    }
    return st;
}

/* --- some --------------------------------------------------------------------------------------*/

/* Every first value of a dimension as often as any other, each time together with others. */
static void sample(struct search *search, uint32_t n)
{
    const struct pst_joint *joint = search->joint;
    uint32_t *order[PST_JOINT_DIMS], n_first[PST_JOINT_DIMS];

    for (uint32_t d = 0; d < joint->n_dims; d++) {
        order[d] = pst_alloc(joint->size[d], sizeof **order);
        n_first[d] = 0;
        for (uint32_t v = 0; v < joint->size[d]; v++) {
            if (first_of(joint, d, v) == v) {
                order[d][n_first[d]++] = v;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t point = 0;

        for (uint32_t d = 0; d < joint->n_dims; d++) {
            const uint32_t at = i % n_first[d], with = at + draw(search, n_first[d] - at);
            const uint32_t value = order[d][with];

            order[d][with] = order[d][at];
            order[d][at] = value;
            point += value * search->stride[d];
        }
        propose(search, point);
    }
    for (uint32_t d = 0; d < joint->n_dims; d++) {
        free(order[d]);
    }
}

/* All first values of a dimension, or the variants of the value that a point has there. */
static void vary(struct search *search, struct elite *elite, uint32_t dim, bool variants)
{
    const struct pst_joint *joint = search->joint;
    const uint32_t own = first_of(joint, dim, value_of(search, elite->point, dim));

    for (uint32_t v = 0; v < joint->size[dim]; v++) {
        if (variants ? first_of(joint, dim, v) == own : first_of(joint, dim, v) == v) {
            propose(search, with_value(search, elite->point, dim, v));
        }
    }
    if (search->n_round < PST_JOINT_ROUND) { /* else the others come in the next round */
        elite->varied |= 1u << (variants ? PST_JOINT_DIMS + dim : dim);
    }
}

/* Of points of these ranks, the best first, and of each the small dimensions first. False: all of
   that is known. */
static bool vary_ranks(struct search *search, uint32_t from, uint32_t to, bool variants)
{
    const struct pst_joint *joint = search->joint;
    const uint32_t shift = variants ? PST_JOINT_DIMS : 0, all = (1u << joint->n_dims) - 1;

    for (uint32_t e = from; e < to && e < search->n_elite; e++) {
        struct elite *elite = &search->elite[e];

        while ((elite->varied >> shift & all) != all) {
            uint32_t dim = PST_JOINT_DIMS;

            for (uint32_t d = 0; d < joint->n_dims; d++) {
                bool open = (elite->varied >> shift >> d & 1u) == 0;

                dim =
                    open && (dim == PST_JOINT_DIMS || joint->size[d] < joint->size[dim]) ? d : dim;
            }
            vary(search, elite, dim, variants);
            if (search->n_round >= FEW) {
                return true;
            }
        }
    }
    return search->n_round > 0;
}

/* Of each leader the variants of the value that it leads, the best leader first. */
static bool vary_leaders(struct search *search)
{
    const struct pst_joint *joint = search->joint;

    while (search->n_round < FEW) {
        struct elite *best = NULL;
        uint32_t dim = 0;

        for (uint32_t d = 0; d < joint->n_dims; d++) {
            for (uint32_t v = 0; v < joint->size[d]; v++) {
                struct elite *leader = &search->leader[d][v];

                if (leader->score.state != PST_SCORE_NONE && leader->varied == 0 &&
                    (best == NULL || is_better(leader, best))) {
                    best = leader;
                    dim = d;
                }
            }
        }
        if (best == NULL) {
            break;
        }
        vary(search, best, dim, true);
    }
    return search->n_round > 0;
}

/* All values of the dimensions that go together, each with each. */
static bool vary_coupled(struct search *search, struct elite *elite)
{
    const struct pst_joint *joint = search->joint;
    uint32_t n = 1;

    for (uint32_t d = 0; d < joint->n_dims; d++) {
        n *= joint->coupled >> d & 1u ? joint->size[d] : 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t point = elite->point, rest = i;

        for (uint32_t d = 0; d < joint->n_dims; d++) {
            if (joint->coupled >> d & 1u) {
                point = with_value(search, point, d, rest % joint->size[d]);
                rest /= joint->size[d];
            }
        }
        propose(search, point);
    }
    elite->coupled = search->n_round < PST_JOINT_ROUND;
    return search->n_round > 0;
}

static bool couple_ranks(struct search *search, uint32_t to)
{
    for (uint32_t e = 0; e < to && e < search->n_elite; e++) {
        if (!search->elite[e].coupled && vary_coupled(search, &search->elite[e])) {
            return true;
        }
    }
    return false;
}

static bool vary_best(struct search *search)
{
    return vary_ranks(search, 0, 1, false) || couple_ranks(search, 1) ||
           vary_ranks(search, 0, NEAR, false) || couple_ranks(search, NEAR) ||
           vary_ranks(search, 0, NEAR, true) || vary_ranks(search, NEAR, ELITE, false) ||
           vary_ranks(search, NEAR, ELITE, true);
}

/* Dimensions of two of the best, one or two of them by chance; or chance alone. */
static void explore(struct search *search)
{
    const struct pst_joint *joint = search->joint;

    for (uint32_t i = 0; i < DRAWS * FEW && search->n_round < FEW; i++) {
        const uint32_t a = search->elite[draw(search, search->n_elite)].point;
        const uint32_t b = search->elite[draw(search, search->n_elite)].point;
        const uint32_t x = draw(search, joint->n_dims), y = draw(search, joint->n_dims);
        const bool free_choice = i % 4 == 3;
        uint32_t point = 0;

        for (uint32_t d = 0; d < joint->n_dims; d++) {
            bool chance = free_choice || d == x || d == y;
            uint32_t value = chance ? draw(search, joint->size[d])
                                    : value_of(search, draw(search, 2) == 0 ? a : b, d);

            if (chance && draw(search, 2) == 0) {
                value = first_of(joint, d, value);
            }
            point += value * search->stride[d];
        }
        propose(search, point);
    }
}

static pst_status try_blindly(struct search *search, struct pst_error *err)
{
    uint32_t idle = 0;
    pst_status st = PST_OK;

    while (st == PST_OK && idle < IDLE_MOST && !is_through(search)) {
        for (uint32_t i = 0; i < PST_JOINT_ROUND; i++) {
            uint32_t point = 0;

            for (uint32_t d = 0; d < search->joint->n_dims; d++) {
                point += draw(search, search->joint->size[d]) * search->stride[d];
            }
            propose(search, point);
        }
        idle = search->n_round == 0 ? idle + 1 : 0;
        st = end_round(search, err);
    }
    return st;
}

static pst_status try_some_points(struct search *search, struct pst_error *err)
{
    const struct pst_joint *joint = search->joint;
    const uint32_t wanted =
        joint->budget / SAMPLE < SAMPLE_MOST ? joint->budget / SAMPLE : SAMPLE_MOST;
    uint32_t idle = 0;
    pst_status st = PST_OK;

    propose(search, joint->start);
    for (uint32_t n = 0; n < wanted && st == PST_OK && !is_through(search); n += PST_JOINT_ROUND) {
        sample(search, wanted - n < PST_JOINT_ROUND ? wanted - n : PST_JOINT_ROUND);
        st = end_round(search, err);
    }
    for (uint32_t r = 1; st == PST_OK && idle < IDLE_MOST && !is_through(search); r++) {
        bool varied = r % LEADERS == LEADERS - 1 && vary_leaders(search);

        if (r % EXPLORE == 0 || (!varied && !vary_best(search))) {
            explore(search);
        }
        idle = search->n_round == 0 ? idle + 1 : 0;
        st = end_round(search, err);
    }
    return st;
}

pst_status pst_joint_search(const struct pst_joint *joint, struct pst_joint_found *ret_found,
                            struct pst_error *err)
{
    struct search search = {.joint = joint, .n_points = 1};
    pst_status st;

    for (uint32_t d = joint->n_dims; d-- > 0;) {
        search.stride[d] = (uint32_t)search.n_points;
        search.n_points *= joint->size[d];
        search.leader[d] = pst_alloc(joint->size[d], sizeof *search.leader[d]);
    }
    search.found.n_points = search.n_points;
    st = search.n_points <= joint->budget ? try_every_point(&search, err)
         : joint->blind                   ? try_blindly(&search, err)
                                          : try_some_points(&search, err);
    search.found.all = search.found.n_tried + search.found.n_hopeless == search.n_points;
    *ret_found = search.found;
    for (uint32_t d = 0; d < joint->n_dims; d++) {
        free(search.leader[d]);
    }
    free(search.seen);
    return st;
}
