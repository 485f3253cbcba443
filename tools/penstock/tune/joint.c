/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/joint.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
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

/* A point that is to be tried. */
struct proposed {
    uint32_t point;
    bool told;
    struct pst_score score;
};

struct pst_joint_search {
    const struct pst_joint *joint;
    uint64_t n_points;
    uint32_t stride[PST_JOINT_DIMS];
    uint32_t *seen; /* points + 1, hashed; proposed or hopeless */
    uint32_t capacity, n_seen;
    struct proposed *proposed; /* in the order of trials */
    uint32_t room, n_proposed;
    uint32_t n_given;  /* of them, */
    uint32_t n_known;  /* that count for what is proposed next */
    uint32_t n_round;  /* of the last round */
    uint32_t n_rounds; /* after the even sample */
    uint64_t at;       /* of a grid that is tried as a whole: the next point; else of the sample */
    struct elite elite[ELITE];
    uint32_t n_elite;
    /* [size] For each first value of a dimension the best point with it or a variant of it: another
       variant there may be better than all the elite. */
    struct elite *leader[PST_JOINT_DIMS];
    uint64_t drawn; /* random numbers */
    bool through;   /* nothing is left to propose */
    struct pst_joint_found found;
};

/* --- points ------------------------------------------------------------------------------------*/

static uint32_t value_of(const struct pst_joint_search *search, uint32_t point, uint32_t dim)
{
    return point / search->stride[dim] % search->joint->size[dim];
}

static uint32_t with_value(const struct pst_joint_search *search, uint32_t point, uint32_t dim,
                           uint32_t value)
{
    return point - (value_of(search, point, dim) - value) * search->stride[dim];
}

static uint32_t first_of(const struct pst_joint *joint, uint32_t dim, uint32_t value)
{
    return joint->group[dim] == NULL ? value : joint->group[dim][value];
}

static uint32_t draw_number(struct pst_joint_search *search, uint32_t below)
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

static void grow_points(struct pst_joint_search *search)
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

static const struct pst_score *best_of(const struct pst_joint_search *search)
{
    static const struct pst_score none = {.state = PST_SCORE_NONE};

    return search->n_elite == 0 ? &none : &search->elite[0].score;
}

/* Adds a point to the round, unless it is known, hopeless, or there is no room. */
static void propose(struct pst_joint_search *search, uint32_t point)
{
    const struct pst_joint *joint = search->joint;
    uint32_t *slot;

    if (search->n_round == PST_JOINT_ROUND || search->n_proposed == joint->budget) {
        return;
    }
    if (2 * search->n_seen >= search->capacity) {
        grow_points(search);
    }
    slot = slot_of(search->seen, search->capacity, point);
    if (*slot != 0) {
        return;
    }
    *slot = point + 1;
    search->n_seen++;
    if (joint->hopeless != NULL && joint->hopeless(joint->context, point, best_of(search))) {
        search->found.n_hopeless++;
        return;
    }
    if (search->n_proposed == search->room) {
        search->room = search->room == 0 ? 256 : 2 * search->room;
        search->proposed = pst_resize(search->proposed, search->room, sizeof *search->proposed);
    }
    search->proposed[search->n_proposed++] = (struct proposed){.point = point};
    search->n_round++;
}

/* --- rounds ------------------------------------------------------------------------------------*/

/* True if a is better. Equal points are ordered by number, so the order of rounds is irrelevant. */
static bool is_better(const struct elite *a, const struct elite *b)
{
    const int order = pst_score_compare(&a->score, &b->score);

    return order > 0 || (order == 0 && a->point < b->point);
}

/* Points whose strategies come to the same plan are good for nothing new. */
static bool is_known_plan(const struct pst_joint_search *search, const struct elite *elite)
{
    for (uint32_t e = 0; e < search->n_elite; e++) {
        if (pst_score_compare(&search->elite[e].score, &elite->score) == 0) {
            return true;
        }
    }
    return false;
}

static void keep_elite(struct pst_joint_search *search, struct elite elite)
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

static void keep_leaders(struct pst_joint_search *search, struct elite elite)
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

/* Takes in what points came to, in their order. */
static void learn_scores(struct pst_joint_search *search)
{
    const struct proposed *proposed = &search->proposed[search->n_known++];
    const struct elite elite = {.point = proposed->point, .score = proposed->score};

    keep_elite(search, elite);
    keep_leaders(search, elite);
}

/* --- all ---------------------------------------------------------------------------------------*/

static void propose_every_point(struct pst_joint_search *search)
{
    if (search->at == 0) {
        propose(search, search->joint->start); /* one by which others may be hopeless */
    }
    while (search->at < search->n_points && search->n_round < PST_JOINT_ROUND) {
        propose(search, (uint32_t)search->at++);
    }
}

/* --- some --------------------------------------------------------------------------------------*/

/* Every first value of a dimension as often as any other, each time together with others. */
static void sample_evenly(struct pst_joint_search *search, uint32_t n)
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
            const uint32_t at = i % n_first[d], with = at + draw_number(search, n_first[d] - at);
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
static void vary_dimension(struct pst_joint_search *search, struct elite *elite, uint32_t dim,
                           bool variants)
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

/* Proposes variations of the points of these ranks, the best point first, its small dimensions
   first. Returns false if all of them are known. */
static bool vary_ranks(struct pst_joint_search *search, uint32_t from, uint32_t to, bool variants)
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
            vary_dimension(search, elite, dim, variants);
            if (search->n_round >= FEW) {
                return true;
            }
        }
    }
    return search->n_round > 0;
}

/* Proposes for each leader the variants of the value that it leads, the best leader first. */
static bool vary_leaders(struct pst_joint_search *search)
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
        vary_dimension(search, best, dim, true);
    }
    return search->n_round > 0;
}

/* All values of the dimensions that go together, each with each. */
static bool vary_coupled(struct pst_joint_search *search, struct elite *elite)
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

static bool couple_ranks(struct pst_joint_search *search, uint32_t to)
{
    for (uint32_t e = 0; e < to && e < search->n_elite; e++) {
        if (!search->elite[e].coupled && vary_coupled(search, &search->elite[e])) {
            return true;
        }
    }
    return false;
}

static bool vary_best(struct pst_joint_search *search)
{
    return vary_ranks(search, 0, 1, false) || couple_ranks(search, 1) ||
           vary_ranks(search, 0, NEAR, false) || couple_ranks(search, NEAR) ||
           vary_ranks(search, 0, NEAR, true) || vary_ranks(search, NEAR, ELITE, false) ||
           vary_ranks(search, NEAR, ELITE, true);
}

/* Dimensions of two of the best, one or two of them by chance; or chance alone. */
static void explore(struct pst_joint_search *search)
{
    const struct pst_joint *joint = search->joint;

    for (uint32_t i = 0; i < DRAWS * FEW && search->n_round < FEW; i++) {
        const uint32_t a = search->elite[draw_number(search, search->n_elite)].point;
        const uint32_t b = search->elite[draw_number(search, search->n_elite)].point;
        const uint32_t x = draw_number(search, joint->n_dims),
                       y = draw_number(search, joint->n_dims);
        const bool free_choice = i % 4 == 3;
        uint32_t point = 0;

        for (uint32_t d = 0; d < joint->n_dims; d++) {
            bool chance = free_choice || d == x || d == y;
            uint32_t value = chance ? draw_number(search, joint->size[d])
                                    : value_of(search, draw_number(search, 2) == 0 ? a : b, d);

            if (chance && draw_number(search, 2) == 0) {
                value = first_of(joint, d, value);
            }
            point += value * search->stride[d];
        }
        propose(search, point);
    }
}

static void propose_blindly(struct pst_joint_search *search)
{
    for (uint32_t i = 0; i < PST_JOINT_ROUND; i++) {
        uint32_t point = 0;

        for (uint32_t d = 0; d < search->joint->n_dims; d++) {
            point += draw_number(search, search->joint->size[d]) * search->stride[d];
        }
        propose(search, point);
    }
}

static void propose_some(struct pst_joint_search *search)
{
    const uint32_t share = search->joint->budget / SAMPLE;
    const uint32_t wanted = share < SAMPLE_MOST ? share : SAMPLE_MOST;
    bool varied;

    if (search->n_proposed == 0) {
        propose(search, search->joint->start);
    }
    if (search->at < wanted) {
        const uint32_t left = wanted - (uint32_t)search->at;

        sample_evenly(search, left < PST_JOINT_ROUND ? left : PST_JOINT_ROUND);
        search->at += left < PST_JOINT_ROUND ? left : PST_JOINT_ROUND;
        return;
    }
    search->n_rounds++;
    varied = search->n_rounds % LEADERS == LEADERS - 1 && vary_leaders(search);
    if (search->n_rounds % EXPLORE == 0 || (!varied && !vary_best(search))) {
        explore(search);
    }
}

/* --- one after the other -----------------------------------------------------------------------*/

static void make_round(struct pst_joint_search *search)
{
    const struct pst_joint *joint = search->joint;
    const bool whole = search->n_points <= joint->budget;

    search->n_round = 0;
    for (uint32_t i = 0;
         i < IDLE_MOST && search->n_round == 0 && search->n_proposed < joint->budget; i++) {
        (whole ? propose_every_point : joint->blind ? propose_blindly : propose_some)(search);
    }
}

bool pst_joint_next(struct pst_joint_search *search, uint32_t *ret_point)
{
    if (search->n_given == search->n_proposed && search->n_proposed < search->joint->budget) {
        while (search->n_known < search->n_proposed && search->proposed[search->n_known].told) {
            learn_scores(search);
        }
        if (search->n_known == search->n_proposed && !search->through) {
            make_round(search);
            search->through = search->n_round == 0;
        }
    }
    if (search->n_given == search->n_proposed) {
        return false;
    }
    *ret_point = search->proposed[search->n_given++].point;
    return true;
}

static void *copy_of(const void *from, size_t count, size_t size)
{
    void *copy = pst_alloc(count, size);

    return count == 0 ? copy : memcpy(copy, from, count * size);
}

static struct pst_joint_search *twin_of(const struct pst_joint_search *search)
{
    const struct pst_joint *joint = search->joint;
    struct pst_joint_search *twin = copy_of(search, 1, sizeof *search);

    twin->seen = copy_of(search->seen, search->capacity, sizeof *search->seen);
    twin->room = search->n_proposed;
    twin->proposed = copy_of(search->proposed, twin->room, sizeof *search->proposed);
    for (uint32_t d = 0; d < joint->n_dims; d++) {
        twin->leader[d] = copy_of(search->leader[d], joint->size[d], sizeof *search->leader[d]);
    }
    return twin;
}

uint32_t pst_joint_guess(const struct pst_joint_search *search, uint32_t *ret_points)
{
    struct pst_joint_search *twin = twin_of(search);
    struct pst_joint_found unused;
    uint32_t n = 0;

    do {
        while (twin->n_known < twin->n_proposed) {
            learn_scores(twin);
        }
        make_round(twin);
        for (uint32_t i = twin->n_known; i < twin->n_proposed && n < PST_JOINT_ROUND; i++) {
            ret_points[n++] = twin->proposed[i].point;
        }
    } while (n < PST_JOINT_ROUND && twin->n_round > 0);
    pst_joint_end(twin, &unused);
    return n;
}

void pst_joint_report(struct pst_joint_search *search, uint32_t point, struct pst_score score)
{
    struct proposed *proposed = &search->proposed[search->n_known];

    while (proposed->point != point) {
        proposed++;
    }
    PST_ASSERT(proposed < &search->proposed[search->n_given] && !proposed->told);
    proposed->told = true;
    proposed->score = score;
    search->found.n_tried++;
}

struct pst_joint_search *pst_joint_begin(const struct pst_joint *joint)
{
    struct pst_joint_search *search = pst_alloc(1, sizeof *search);

    search->joint = joint;
    search->n_points = 1;
    for (uint32_t d = joint->n_dims; d-- > 0;) {
        search->stride[d] = (uint32_t)search->n_points;
        search->n_points *= joint->size[d];
        search->leader[d] = pst_alloc(joint->size[d], sizeof *search->leader[d]);
    }
    return search;
}

void pst_joint_end(struct pst_joint_search *search, struct pst_joint_found *ret_found)
{
    *ret_found = search->found;
    ret_found->n_points = search->n_points;
    ret_found->all = search->found.n_tried + search->found.n_hopeless == search->n_points;
    for (uint32_t d = 0; d < search->joint->n_dims; d++) {
        free(search->leader[d]);
    }
    free(search->proposed);
    free(search->seen);
    free(search);
}
