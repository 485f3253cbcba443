/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mpi_environment.h"

enum { MOST_RULES = 16, MOST_POINTS = 32, POINT_SIZE = 32, ANY_RANK = UINT32_MAX };

/* What is to become of a call. */
struct effect {
    bool fails;
    int code; /* errno; 0: the usual one */
    size_t bytes;
};

struct rule {
    char point[POINT_SIZE], action[POINT_SIZE];
    uint32_t rank;
    uint64_t first, last; /* hits that it is about */
    uint64_t argument;
};

struct point {
    const char *name;
    uint64_t hits[PST_FAULT_RANKS];
};

static struct rule rules[MOST_RULES];
static struct point points[MOST_POINTS];
static uint32_t n_rules, n_points;
static uint32_t own_rank; /* of this process */
static bool counting;
static atomic_bool disk_is_full;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void refuse(const char *text)
{
    fprintf(stderr, "PENSTOCK_FAULT: \"%s\" is no [rank=K/]POINT[:N|:N+|:*][:ACTION[:ARGUMENT]]\n",
            text);
    _exit(2);
}

static uint64_t number(const char *text, const char *all)
{
    char *end = NULL;
    uint64_t value = strtoull(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0') {
        refuse(all);
    }
    return value;
}

/* A rank that is counted. */
static uint32_t rank_of(const char *text, const char *all)
{
    const uint64_t rank = number(text, all);

    if (rank >= PST_FAULT_RANKS) {
        refuse(all);
    }
    return (uint32_t)rank;
}

/* A copy with an end; what does not fit is refused. */
static void copy_text(char *to, size_t size, const char *from, const char *all)
{
    const size_t length = strlen(from);

    if (length >= size) {
        refuse(all);
    }
    memcpy(to, from, length + 1);
}

/* "3", "3+", "*"; false: it is something else. */
static bool read_hits(struct rule *rule, char *word, const char *all)
{
    size_t length = strlen(word);

    if (strcmp(word, "*") == 0) {
        rule->first = 1;
        rule->last = UINT64_MAX;
        return true;
    }
    if (word[0] < '0' || word[0] > '9') {
        return false;
    }
    rule->last = 0;
    if (word[length - 1] == '+') {
        word[length - 1] = '\0';
        rule->last = UINT64_MAX;
    }
    rule->first = number(word, all);
    if (rule->first == 0) { /* ranks come by for the first time */
        refuse(all);
    }
    rule->last = rule->last == 0 ? rule->first : rule->last;
    return true;
}

static bool is_action(const char *word)
{
    static const char *const known[] = {"fail", "short", "disk-full", "delay",
                                        "exit", "kill",  "stop",      "segv"};

    for (uint32_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(word, known[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The argument of fail: the name of an error, as the system has it. */
static uint64_t error_named(const char *word, const char *all)
{
    for (int code = 1; code < 256; code++) {
        const char *name = strerrorname_np(code);

        if (name != NULL && strcmp(name, word) == 0) {
            return (uint64_t)code;
        }
    }
    refuse(all);
    return 0;
}

static void read_rule(const char *all)
{
    struct rule *rule = &rules[n_rules++];
    char text[128], *rest = text, *word;

    *rule = (struct rule){.rank = ANY_RANK, .first = 1, .last = 1, .action = "fail"};
    copy_text(text, sizeof text, all, all);
    if (strncmp(text, "rank=", 5) == 0) {
        rest = strchr(text, '/');
        if (rest == NULL) {
            refuse(all);
            return;
        }
        *rest++ = '\0';
        rule->rank = rank_of(text + 5, all);
    }
    word = strsep(&rest, ":");
    copy_text(rule->point, sizeof rule->point, word, all);
    word = strsep(&rest, ":");
    if (word != NULL && read_hits(rule, word, all)) {
        word = strsep(&rest, ":");
    }
    if (word != NULL) {
        copy_text(rule->action, sizeof rule->action, word, all);
        rule->argument = rest == NULL                        ? 0
                         : strcmp(rule->action, "fail") == 0 ? error_named(rest, all)
                                                             : number(rest, all);
    }
    if (rule->point[0] == '\0' || !is_action(rule->action)) {
        refuse(all);
    }
}

static void print_counts(void)
{
    for (uint32_t i = 0; i < n_points; i++) {
        for (uint32_t r = 0; r < PST_FAULT_RANKS; r++) {
            if (points[i].hits[r] > 0) {
                fprintf(stderr, "fault point rank=%u/%s: %llu\n", r, points[i].name,
                        (unsigned long long)points[i].hits[r]);
            }
        }
    }
}

static void read_rules(void)
{
    static char copy[2048]; /* to allocate is a point itself */
    const char *text = getenv("PENSTOCK_FAULT"), *rank = pst_launched_first(pst_launched_ranks());
    char *rest = copy, *word;

    if (text == NULL || text[0] == '\0') {
        return;
    }
    own_rank = rank == NULL ? 0 : (uint32_t)strtoul(rank, NULL, 10);
    if (strcmp(text, "count") == 0) {
        counting = true;
        atexit(print_counts);
        return;
    }
    copy_text(copy, sizeof copy, text, text);
    while ((word = strsep(&rest, ",")) != NULL) {
        if (n_rules == MOST_RULES) {
            refuse(text);
        }
        read_rule(word);
    }
}

/* Which time this is. */
static uint64_t count(const char *name, uint32_t rank)
{
    uint64_t hits = 0;
    uint32_t i = 0;

    pthread_mutex_lock(&lock);
    while (i < n_points && strcmp(points[i].name, name) != 0) {
        i++;
    }
    if (i == n_points && n_points < MOST_POINTS) {
        points[n_points++].name = name;
    }
    if (i < MOST_POINTS) {
        hits = ++points[i].hits[rank];
    }
    pthread_mutex_unlock(&lock);
    return hits;
}

static void act(const struct rule *rule, struct effect *effect)
{
    const struct timespec time = {.tv_sec = (time_t)(rule->argument / 1000),
                                  .tv_nsec = (long)(rule->argument % 1000) * 1000000};

    if (strcmp(rule->action, "fail") == 0) {
        effect->fails = true;
        effect->code = (int)rule->argument;
    } else if (strcmp(rule->action, "short") == 0) {
        effect->bytes = effect->bytes < rule->argument ? effect->bytes : rule->argument;
    } else if (strcmp(rule->action, "disk-full") == 0) {
        atomic_store(&disk_is_full, true);
    } else if (strcmp(rule->action, "delay") == 0) {
        nanosleep(&time, NULL);
    } else if (strcmp(rule->action, "exit") == 0) {
        _exit((int)rule->argument);
    } else if (strcmp(rule->action, "kill") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(rule->action, "stop") == 0) {
        kill(getpid(), SIGSTOP);
    } else if (strcmp(rule->action, "segv") == 0) {
        raise(SIGSEGV);
    }
}

static struct effect meet(const char *point, uint32_t rank)
{
    struct effect effect = {.bytes = SIZE_MAX};
    uint64_t hit;

    if ((n_rules == 0 && !counting) || rank >= PST_FAULT_RANKS) {
        return effect;
    }
    hit = count(point, rank);
    for (uint32_t i = 0; i < n_rules; i++) {
        const struct rule *rule = &rules[i];

        if ((rule->rank == ANY_RANK || rule->rank == rank) && hit >= rule->first &&
            hit <= rule->last && strcmp(rule->point, point) == 0) {
            act(rule, &effect);
        }
    }
    return effect;
}

bool pst_fault(const char *point, uint32_t rank)
{
    pthread_once(&once, read_rules);
    return meet(point, rank).fails;
}

/* A test may have one of its own. */
__attribute__((weak)) int pst_fault_call(const char *point, int usual, size_t *bytes)
{
    struct effect effect;

    pthread_once(&once, read_rules);
    effect = meet(point, own_rank);
    if (bytes != NULL && effect.bytes < *bytes) {
        *bytes = effect.bytes;
    }
    if (effect.fails) {
        return effect.code != 0 ? effect.code : usual;
    }
    return usual == ENOSPC && atomic_load(&disk_is_full) ? ENOSPC : 0;
}
