/* SPDX-License-Identifier: Apache-2.0
 *
 * The tests of the plugin checker. Each runs in a process of its own: it returns if the plugin
 * passes, and ends the process through verdict.h if not.
 */
#ifndef PST_CONFORMANCE_TESTS_H
#define PST_CONFORMANCE_TESTS_H

#include "conformance/rig.h"

struct pst_conformance_test {
    const char *name, *what;
    void (*run)(struct pst_subject *subject);
    bool first;        /* where it fails, the others are skipped */
    bool twice;        /* run in two processes: both must leave the same digest */
    const char *kinds; /* words: those that it is for; NULL: for all */
};

extern const struct pst_conformance_test pst_conformance_tests[];
extern const uint32_t pst_conformance_n_tests;

/* Opens the plugin, and judges what loading it did (tests_load.c). */
void pst_test_load(struct pst_subject *subject);
void pst_test_exports(struct pst_subject *subject);
void pst_test_description(struct pst_subject *subject);
void pst_test_interfaces(struct pst_subject *subject);

/* tests_life.c */
void pst_test_lifecycle(struct pst_subject *subject);
void pst_test_growth(struct pst_subject *subject);
void pst_test_allocations(struct pst_subject *subject);
void pst_test_cancel(struct pst_subject *subject);
void pst_test_bare_host(struct pst_subject *subject);

/* tests_answer.c */
void pst_test_answers(struct pst_subject *subject);
void pst_test_edges(struct pst_subject *subject);
void pst_test_repeats(struct pst_subject *subject);
void pst_test_two_instances(struct pst_subject *subject);
void pst_test_newer_host(struct pst_subject *subject);

/* tests_plan.c */
void pst_test_plan(struct pst_subject *subject);

/* tests_operator.c */
void pst_test_gradients(struct pst_subject *subject);
void pst_test_kernels(struct pst_subject *subject);

/* Question number i of a run: small, of every shape in turn. */
struct pst_case pst_case_random(uint64_t seed, uint32_t i);

#endif
