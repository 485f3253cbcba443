/* SPDX-License-Identifier: Apache-2.0
 *
 * One search per micro-batch size. A larger size must do better than all smaller ones, so most
 * searches end with their first probe. A size for each stage (b = 0) must do better than all.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "solver.h"

struct sweep {
    const struct part_problem *problem;
    const struct gp_tree *tree;
    const struct gp_options *options;
    struct gp_watch *watch;
    struct gp_table *table;
    struct call_region *region;
    pthread_mutex_t lock; /* of what follows */
    uint32_t next;
    bool *done;
    pst_status status;
};

/* The least T among smaller sizes that are through. More of them would only end a search sooner. */
static double bound_of(const struct sweep *s, uint32_t at)
{
    double least = INFINITY;
    uint32_t i;

    for (i = 0; i < at; i++) {
        const struct gp_result *r = &s->table->tries[i].result;

        if (s->done[i] && r->found) {
            least = fmin(least, r->value.bottleneck_ns);
        }
    }
    return least;
}

static bool has_degree(const struct part_problem *p, uint32_t b)
{
    uint32_t k;

    for (k = 0; k < p->n_degrees; k++) {
        if (b % p->degrees[k] == 0) {
            return true;
        }
    }
    return false;
}

static pst_status work(void *sweep_)
{
    struct sweep *s = sweep_;

    for (;;) {
        struct gp_result result = {0};
        struct gp_try *mine = NULL;
        double below = INFINITY;
        uint32_t at;

        pthread_mutex_lock(&s->lock);
        at = s->next;
        if (at < s->table->n && s->status == PST_OK) {
            mine = &s->table->tries[at];
            below = bound_of(s, at);
            s->next++;
        }
        pthread_mutex_unlock(&s->lock);
        if (mine == NULL) {
            return PST_OK;
        }
        if (mine->b == 0 || has_degree(s->problem, mine->b)) {
            gp_search_size(s->problem, s->tree, s->options, mine->b, below, s->watch, &result);
        }
        pthread_mutex_lock(&s->lock);
        mine->result = result;
        s->done[at] = true;
        pthread_mutex_unlock(&s->lock);
    }
}

/* What ends the call waits for the other threads. */
static void *start(void *sweep_)
{
    struct sweep *s = sweep_;
    pst_status st = call_join(s->region, work, s);

    if (st != PST_OK) {
        pthread_mutex_lock(&s->lock);
        s->status = st;
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

/* Drops what does not beat the smaller sizes: the same whichever bounds were known in time. */
static void settle(struct gp_table *table)
{
    double least = INFINITY;
    uint32_t i;

    for (i = 0; i < table->n; i++) {
        struct gp_try *t = &table->tries[i];

        if (t->result.found && t->result.value.bottleneck_ns < least * (1 - 1e-12)) {
            least = t->result.value.bottleneck_ns;
            continue;
        }
        t->skipped = least < INFINITY;
        if (t->result.found) {
            part_plan_finish(&t->result.plan);
            t->result.found = false;
        }
    }
}

static uint32_t count_threads(const struct gp_options *options, const struct gp_tree *tree,
                              uint32_t n)
{
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = options->threads;

    if (threads == 0) {
        threads = n_processors > 0 ? (uint32_t)n_processors : 1;
    }
    if (!tree->reduced) {
        threads = 1; /* its plans depend on which probes were made */
    }
    return threads < n ? threads : n;
}

void gp_sweep(const struct part_problem *problem, const struct gp_tree *tree,
              const struct gp_options *options, struct gp_watch *watch, struct gp_table *ret_table)
{
    struct sweep s = {.problem = problem,
                      .tree = tree,
                      .options = options,
                      .watch = watch,
                      .table = ret_table,
                      .region = call_now(),
                      .status = PST_OK};
    uint32_t n = problem->n_sizes + (options->per_stage ? 1 : 0), i, n_threads = 0;
    pthread_t *threads = call_alloc(n, sizeof *threads);

    *ret_table = (struct gp_table){.n = n, .tries = call_alloc(n, sizeof *ret_table->tries)};
    CALL_TAKE(s.done, n);
    pthread_mutex_init(&s.lock, NULL);
    if (s.status == PST_OK) {
        for (i = 0; i < n; i++) {
            ret_table->tries[i].b = i < problem->n_sizes ? problem->sizes[i] : 0;
        }
        while (n_threads + 1 < count_threads(options, tree, n) &&
               pthread_create(&threads[n_threads], NULL, start, &s) == 0) {
            n_threads++; /* fewer are as good */
        }
        start(&s);
        for (i = 0; i < n_threads; i++) {
            pthread_join(threads[i], NULL);
        }
        settle(ret_table);
    }
    pthread_mutex_destroy(&s.lock);
    if (s.status != PST_OK) {
        call_end(s.status);
    }
}
