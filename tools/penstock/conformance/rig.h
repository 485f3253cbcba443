/* SPDX-License-Identifier: Apache-2.0
 *
 * An instance of a plugin behind the planner's host, which can be made to misbehave in every way
 * that the contract allows: no memory at the n-th request, a search that is cancelled, extensions
 * that are absent. What the plugin asks is answered from the question's graph by the reference cost
 * model.
 */
#ifndef PST_CONFORMANCE_RIG_H
#define PST_CONFORMANCE_RIG_H

#include "ask/problem_state.h"
#include "conformance/problem.h"
#include "host/plugin_host.h"

/* The plugin that is checked, the same for all tests of a child. */
struct pst_subject {
    const char *path, *folder; /* the file; an empty folder that is the current one */
    const struct pst_plugin *plugin;
    uint64_t seed;
    struct pst_config_node *parameters; /* NULL: defaults */
    const char *const *sets;            /* the same as key=value */
    uint32_t n_sets;
};

/* How the host behaves. All zero: as it should. */
struct pst_manners {
    uint32_t fail_at; /* number of the allocation that fails, from 1; 0: none */
    bool fail_on;     /* and all that follow */
    bool cancels;     /* cancelled() is true from the question number cancel_at on, from 0 */
    uint32_t cancel_at;
    bool bare;  /* no extension */
    bool newer; /* a host table and rows of questions that are longer than this header knows */
};

struct pst_rig {
    struct pst_instance instance; /* first: the plugin's host leads to it */
    const struct pst_subject *subject;
    struct pst_manners manners;
    union {
        struct pst_host host;
        unsigned char bytes[sizeof(struct pst_host) + 64];
    } table;
    struct pst_problem problem;
    struct pst_problem_planner planning;
    uint32_t n_allocs, n_asked;
    bool alloc_failed, was_cancelled;
    char said[512];   /* by host->fail */
    char broken[256]; /* a rule of the host table that the plugin broke, or "" */
};

/* Fills the config and calls create(); returns its status, with self set on PST_OK. */
pst_status pst_rig_init(struct pst_rig *rig, const struct pst_subject *subject,
                        const struct pst_manners *manners);
/* Sets the question that extensions answer about from here on. */
void pst_rig_state(struct pst_rig *rig, const struct pst_case *question);
/* Calls destroy() and frees what the host gave. */
void pst_rig_finish(struct pst_rig *rig);

bool pst_subject_provides(const struct pst_subject *subject, const char *word);

#endif
