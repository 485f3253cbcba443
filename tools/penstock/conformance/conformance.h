/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin checker: does a shared object keep the contract of <penstock/penstock.h>? Every test
 * runs in a process of its own, the same program in a hidden mode, with a time limit: a crash, an
 * exit or an endless loop is a failed test that says in which call it happened.
 */
#ifndef PST_CONFORMANCE_CONFORMANCE_H
#define PST_CONFORMANCE_CONFORMANCE_H

#include "base/error.h"

#define PST_CONFORMANCE_MAX  24
#define PST_CONFORMANCE_SEED 1 /* what is used where nobody asks for another */

/* The hidden mode: the first argument of a child. */
#define PST_CONFORMANCE_CHILD "--conformance-child"

enum { PST_CONFORMANCE_PASS = 1, PST_CONFORMANCE_FAIL = 2, PST_CONFORMANCE_SKIP = 3 };

struct pst_conformance_result {
    const char *name, *what; /* "lifecycle", and a sentence: what a plugin must do to pass */
    uint32_t outcome;        /* PST_CONFORMANCE_* */
    char text[1280];         /* why it failed or was skipped, else "" */
    uint64_t elapsed_ns;
};

struct pst_conformance_report {
    uint64_t seed;
    uint32_t n_results, n_failed, n_skipped;
    struct pst_conformance_result results[PST_CONFORMANCE_MAX];
};

struct pst_conformance_question {
    const char *path;        /* the plugin */
    const char *only;        /* name of the one test to run, or NULL */
    uint64_t seed;           /* of random graphs */
    uint32_t time_limit_s;   /* of one test; 0: 20, more under sanitizers */
    const char *const *sets; /* "key=value": parameters other than their defaults */
    uint32_t n_sets;
    bool (*cancelled)(void); /* shall the checker end? or NULL */
    /* Told of each result at once, or NULL. */
    void (*told)(void *context, const struct pst_conformance_result *result);
    void *context;
};

/*
 * Runs the tests. PST_OK whatever they say; an error where they cannot run: plugin.not-found,
 * plugin.insecure, config.value (a parameter, the name of a test; all exit code 2),
 * machine.missing; run.stopped.
 */
pst_status pst_conformance_run(const struct pst_conformance_question *question,
                               struct pst_conformance_report *ret_report, struct pst_error *err);

/* The main function of a child of the checker; the first argument of the program is then
   PST_CONFORMANCE_CHILD. */
int pst_conformance_child(int argc, char **argv);

#endif
