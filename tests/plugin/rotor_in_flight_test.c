/* SPDX-License-Identifier: Apache-2.0
 *
 * rotor with several micro-batches in flight against the dynamic programme written down anew, on
 * chains whose results and gradients are large beside what backward passes need: there the replay
 * of a late layer, with a gradient waiting, is the peak, above that of keeping everything.
 */
#include "test.h"

#include "memopt_rig.h"

enum { MOST = 5, BYTES = 256, NEVER = 1000000 };

/* Layers 1 ... n as nodes of a stage; x[0] is the input. */
struct chain {
    int n, k, capacity;
    int uf[MOST + 2], ub[MOST + 2], x[MOST + 2], saved[MOST + 2], of[MOST + 2], back[MOST + 2];
    int ranges[MOST + 2][MOST + 2][BYTES]; /* C(s, t, m) + 1; 0: not known yet */
    int sweep[MOST + 2][BYTES];            /* D(s, left) + 1 for one kappa */
    int kappa, m0;
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Bytes of forwards of s ... j - 1 of which the result of j - 1 alone stays; a forward has all that
   it makes for a moment. */
static int pass_bytes(const struct chain *c, int s, int j)
{
    int most = 0;

    for (int q = s; q < j; q++) {
        int bytes = c->saved[q] + c->of[q] + (q > s ? c->x[q - 1] : 0);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* back[s]: the gradient of the result of s and that of its input, with workspace. */
static int range(struct chain *c, int s, int t, int m)
{
    int best = NEVER, forward = 0;

    if (m < 0) {
        return NEVER;
    }
    if (c->ranges[s][t][m] != 0) {
        return c->ranges[s][t][m] - 1;
    }
    if (m >= c->x[t] + c->saved[s] + c->of[s] && m >= c->saved[s] + c->back[s]) {
        best = c->uf[s] + c->ub[s] + (s < t ? range(c, s + 1, t, m - c->saved[s]) : 0);
    }
    for (int j = s + 1; j <= t; j++) {
        forward += c->uf[j - 1];
        if (m >= c->x[t] + pass_bytes(c, s, j)) {
            best = least(best, forward + range(c, j, t, m - c->x[j - 1]) + range(c, s, j - 1, m));
        }
    }
    c->ranges[s][t][m] = least(best, NEVER) + 1;
    return least(best, NEVER);
}

/* What the forward pass does from s on, having left so many bytes. */
static int sweep(struct chain *c, int s, int left)
{
    int m = c->m0 - left, best = NEVER, forward = 0;

    if (left > c->kappa || m < 0 || s > c->n) {
        return left > c->kappa || m < 0 ? NEVER : 0;
    }
    if (c->sweep[s][left] != 0) {
        return c->sweep[s][left] - 1;
    }
    if (m >= c->saved[s] + c->of[s] && m >= c->saved[s] + c->back[s]) {
        best = c->uf[s] + c->ub[s] + sweep(c, s + 1, left + c->saved[s]);
    }
    for (int j = s + 1; j <= c->n + 1; j++) {
        forward += c->uf[j - 1];
        if (m >= pass_bytes(c, s, j)) { /* the last result of all need not stay */
            int rest = j <= c->n ? sweep(c, j, left + c->x[j - 1]) : 0;

            best = least(best, forward + rest + range(c, s, j - 1, m));
        }
    }
    c->sweep[s][left] = least(best, NEVER) + 1;
    return least(best, NEVER);
}

static int least_time(struct chain *c)
{
    int best = NEVER;

    memset(c->ranges, 0, sizeof c->ranges);
    for (c->kappa = 0; c->capacity - c->k * c->x[0] - (c->k - 1) * c->kappa >= 0; c->kappa++) {
        c->m0 = c->capacity - c->k * c->x[0] - (c->k - 1) * c->kappa;
        memset(c->sweep, 0, sizeof c->sweep);
        best = least(best, sweep(c, 1, 0));
        if (c->k == 1 && c->kappa > c->capacity) {
            break;
        }
    }
    return best;
}

static void stage_of(const struct chain *c, struct stage *s)
{
    stage_init(s, (uint32_t)c->k, 0, (uint64_t)c->x[0]);
    for (int l = 1; l <= c->n; l++) {
        struct pst_stage_node *node =
            add_link(s, (uint64_t)c->uf[l], (uint64_t)c->ub[l], (uint64_t)c->saved[l]);

        node->output_bytes = (uint64_t)c->x[l];
        node->output_saved = 1;
        node->forward_work_bytes = (uint64_t)c->of[l];
        node->backward_work_bytes = (uint64_t)c->back[l];
    }
    s->view.capacity_bytes = (uint64_t)c->capacity;
}

static void expect(struct pst_instance *rotor, struct chain *c, const char *name)
{
    int best = least_time(c);
    struct memopt_answer answer;
    struct stage s;

    stage_of(c, &s);
    answer = ask(rotor, &s);
    if ((best < NEVER) != (answer.price.fits != 0) ||
        (best < NEVER && answer.value.period_ns != (uint64_t)best)) {
        fail_msg("%s: %d bytes, k %d: %s, %llu, expected %d", name, c->capacity, c->k,
                 answer.price.fits ? "fits" : "no", (unsigned long long)answer.value.period_ns,
                 best);
    }
}

TEST(test_random)
{
    static struct chain c;
    const uint64_t seed = 20261122;
    OWN(instance) *rotor = open_memopt("rotor", "");
    uint64_t counter = 0;

    for (int round = 0; round < 300; round++) {
        int all = 0, most = 0;
        char name[32];

        memset(&c, 0, sizeof c);
        c.n = 1 + (int)draw(seed, &counter, MOST);
        c.k = 1 + (int)draw(seed, &counter, 4);
        c.x[0] = (int)draw(seed, &counter, 4);
        for (int l = 1; l <= c.n; l++) {
            c.uf[l] = 1 + (int)draw(seed, &counter, 9);
            c.ub[l] = 1 + (int)draw(seed, &counter, 15);
            c.x[l] = 1 + (int)draw(seed, &counter, 5);
            c.saved[l] = c.x[l] + (int)draw(seed, &counter, 6);
            c.of[l] = (int)draw(seed, &counter, 3);
            c.back[l] = c.x[l] + (int)draw(seed, &counter, 4);
            all += c.saved[l];
            most = all + c.back[l] > most ? all + c.back[l] : most;
        }
        most = c.k * c.x[0] + (c.k - 1) * all + most;
        c.capacity = most / 3 + (int)draw(seed, &counter, (uint32_t)(most - most / 3 + 1));
        snprintf(name, sizeof name, "round %d", round);
        expect(rotor, &c, name);
    }
}
