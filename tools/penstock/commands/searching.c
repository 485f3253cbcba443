/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/searching.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* A thread draws, so what goes on need not ask for it. */
static pthread_t drawer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static bool runs, over;

static void *draw(void *context)
{
    const char *what = context;
    struct timespec next;
    unsigned seconds = 0;

    clock_gettime(CLOCK_REALTIME, &next);
    pthread_mutex_lock(&lock);
    while (!over) {
        next.tv_sec++;
        while (!over && pthread_cond_timedwait(&ended, &lock, &next) != ETIMEDOUT) {
        }
        if (!over) {
            /* back at its beginning, where a message may overwrite it */
            fprintf(stderr, "\033[K%s: %u s\r", what, ++seconds);
            fflush(stderr);
        }
    }
    pthread_mutex_unlock(&lock);
    if (seconds > 0) {
        fprintf(stderr, "\033[K");
        fflush(stderr);
    }
    return NULL;
}

void pst_searching_begin(const struct pst_cli *cli, const char *what)
{
    if (cli->verbosity < 0 || cli->json || isatty(STDERR_FILENO) != 1) {
        return;
    }
    over = false;
    runs = pthread_create(&drawer, NULL, draw, (void *)(uintptr_t)what) == 0;
}

void pst_searching_end(void)
{
    if (!runs) {
        return;
    }
    pthread_mutex_lock(&lock);
    over = true;
    pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
    pthread_join(drawer, NULL);
    runs = false;
}
