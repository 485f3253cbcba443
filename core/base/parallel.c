/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/util.h"

enum { MOST_THREADS = 64, STACK_BYTES = 1 << 20 };

struct crew {
    void (*work)(void *context, uint32_t i);
    void *context;
    uint32_t n;
    atomic_uint next;
};

static void *take_part(void *crew_)
{
    struct crew *crew = crew_;
    uint32_t i;

    while ((i = atomic_fetch_add(&crew->next, 1)) < crew->n) {
        crew->work(crew->context, i);
    }
    return NULL;
}

void pst_parallel(uint32_t n, void (*work)(void *context, uint32_t i), void *context)
{
    struct crew crew = {.work = work, .context = context, .n = n};
    uint32_t wanted = n > 1 ? pst_usable_cores() : 1, started = 0, i;
    pthread_t threads[MOST_THREADS];
    pthread_attr_t attr;

    atomic_init(&crew.next, 0);
    wanted = wanted < n ? wanted : n;
    wanted = wanted < MOST_THREADS ? wanted : MOST_THREADS;
    if (wanted > 1 && pthread_attr_init(&attr) == 0) {
        (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
        while (started + 1 < wanted &&
               pthread_create(&threads[started], &attr, take_part, &crew) == 0) {
            started++;
        }
        (void)pthread_attr_destroy(&attr);
    }
    take_part(&crew);
    for (i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}
