/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>

#include "conformance/answer.h"
#include "conformance/tests.h"
#include "conformance/traces.h"
#include "conformance/verdict.h"

enum { CYCLES = 1000, WARM_UP = 100, CALLS = 16, ROUNDS = 4, ALLOCATIONS = 200, CANCELS = 5 };

#define CANCEL_LIMIT_MS (2000u * PST_CONFORMANCE_SLOWDOWN)

static const struct pst_manners polite;

/* Bytes that were had from malloc and not given back. */
static size_t bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static pst_status create_destroy(struct pst_subject *subject)
{
    struct pst_rig rig;
    pst_status status = pst_rig_init(&rig, subject, &polite);

    if (status == PST_OK) {
        pst_rig_finish(&rig);
    }
    return status;
}

void pst_test_lifecycle(struct pst_subject *subject)
{
    struct pst_traces before, after;
    const char *left;
    size_t used = 0;
    uint32_t i;

    pst_breadcrumb_enter(pst_breadcrumb_find(subject->plugin->kind, subject->plugin->id),
                         PST_CRUMB_DESTROY);
    subject->plugin->destroy(NULL);
    pst_breadcrumb_leave();
    pst_traces_take(&before);
    for (i = 0; i < CYCLES; i++) {
        pst_status status;

        if (i == WARM_UP) {
            used = bytes_in_use();
        }
        status = create_destroy(subject);
        if (status != PST_OK) {
            pst_verdict_fail("create() number %u failed with status %d", i + 1, (int)status);
        }
    }
    used = bytes_in_use() - used;
    if ((ptrdiff_t)used > 8 * (CYCLES - WARM_UP)) {
        pst_verdict_fail("each create() and destroy() leaves about %zu bytes behind",
                         used / (CYCLES - WARM_UP));
    }
    pst_traces_take(&after);
    left = pst_traces_differ(&before, &after, subject->folder);
    if (left != NULL) {
        pst_verdict_fail("create() and destroy() leave %s behind", left);
    }
}

/* Bytes by which memory grows while one question is put CALLS times, each time to a new instance:
   what the host gives goes with it, the rest the plugin keeps. */
static ptrdiff_t growth_of_calls(struct pst_subject *subject)
{
    static const struct pst_case small = {.name = "asked again and again",
                                          .seed = 2,
                                          .shape = PST_SHAPE_CHAIN,
                                          .memory = PST_MEMORY_AMPLE,
                                          .n_nodes = 6,
                                          .n_devices = 2,
                                          .n_microbatches = 4};
    size_t used = bytes_in_use();

    for (uint32_t i = 0; i < CALLS; i++) {
        struct pst_answer answer;
        struct pst_rig rig;

        if (pst_rig_init(&rig, subject, &polite) != PST_OK) {
            pst_verdict_fail("create() failed: %s", rig.said);
        }
        pst_ask_plugin(&rig, &small, &answer);
        if (answer.broken[0] != '\0') {
            pst_verdict_fail("%s", answer.broken);
        }
        pst_answer_finish(&answer);
        pst_rig_finish(&rig);
    }
    return (ptrdiff_t)(bytes_in_use() - used);
}

/* Memory that a plugin keeps for good grows in the first rounds only: the least growth counts. */
void pst_test_growth(struct pst_subject *subject)
{
    ptrdiff_t least = PTRDIFF_MAX;

    for (uint32_t i = 0; i < ROUNDS && least > 8 * CALLS; i++) {
        ptrdiff_t grown = growth_of_calls(subject);

        least = grown < least ? grown : least;
    }
    if (least > 8 * CALLS) {
        pst_verdict_fail("each question leaves about %td bytes behind; free what malloc gave",
                         least / CALLS);
    }
}

/* One instance and one question with the n-th allocation failing. False: all of them were had. */
static bool starve_allocation(struct pst_subject *subject, uint32_t n, bool for_ever)
{
    struct pst_manners manners = {.fail_at = n, .fail_on = for_ever};
    struct pst_case question = pst_case_random(subject->seed, n);
    struct pst_answer answer = {0};
    struct pst_rig rig;
    pst_status status = pst_rig_init(&rig, subject, &manners);

    if (status == PST_OK) {
        pst_ask_plugin(&rig, &question, &answer);
        if (rig.alloc_failed && answer.status == PST_ERR_BUG) {
            pst_verdict_fail("%s, after allocation number %u failed; return PST_ERR_NOMEM",
                             answer.broken, n);
        }
        if (answer.broken[0] != '\0') {
            pst_verdict_fail("%s (allocation number %u failed)", answer.broken, n);
        }
        pst_answer_finish(&answer);
        pst_rig_finish(&rig);
    } else if (status != PST_ERR_NOMEM) {
        pst_verdict_fail("create() returned %d when allocation number %u failed; PST_ERR_NOMEM is "
                         "expected",
                         (int)status, n);
    }
    return rig.alloc_failed;
}

void pst_test_allocations(struct pst_subject *subject)
{
    uint32_t n, missed = 0;

    /* Questions differ, and so do the numbers of their allocations: a few without a failure. */
    for (n = 1; n <= ALLOCATIONS && missed < 8; n++) {
        bool failed = starve_allocation(subject, n, false);

        failed |= starve_allocation(subject, n, true);
        missed = failed ? 0 : missed + 1;
    }
}

void pst_test_cancel(struct pst_subject *subject)
{
    static const uint32_t after[CANCELS] = {0, 1, 10, 100, 1000};
    static const struct pst_case large = {.name = "cancelled",
                                          .seed = 4,
                                          .shape = PST_SHAPE_RANDOM,
                                          .memory = PST_MEMORY_TIGHT,
                                          .n_nodes = 200,
                                          .n_devices = 8,
                                          .n_microbatches = 64};
    uint32_t i;

    for (i = 0; i < CANCELS; i++) {
        struct pst_manners manners = {.cancels = true, .cancel_at = after[i]};
        struct pst_answer answer;
        struct pst_rig rig;
        uint64_t begin, elapsed_ms;

        if (pst_rig_init(&rig, subject, &manners) != PST_OK) {
            pst_verdict_fail("create() failed while a search is being cancelled");
        }
        begin = pst_verdict_clock_ns();
        pst_ask_plugin(&rig, &large, &answer);
        elapsed_ms = (pst_verdict_clock_ns() - begin) / 1000000;
        if (answer.broken[0] != '\0') {
            pst_verdict_fail("%s (cancelled at question number %u)", answer.broken, after[i]);
        }
        if (rig.was_cancelled && elapsed_ms > CANCEL_LIMIT_MS) {
            pst_verdict_fail("%s took %llu ms after cancelled() returned true; the limit is %u ms",
                             pst_answer_call(), (unsigned long long)elapsed_ms, CANCEL_LIMIT_MS);
        }
        pst_answer_finish(&answer);
        pst_rig_finish(&rig);
    }
}

void pst_test_bare_host(struct pst_subject *subject)
{
    static const struct pst_manners bare = {.bare = true};
    struct pst_rig rig;
    pst_status status = pst_rig_init(&rig, subject, &bare);
    uint32_t i;

    if (status != PST_OK) {
        if (rig.said[0] == '\0' || (status != PST_ERR_UNSUPPORTED && status != PST_ERR_CONFIG)) {
            pst_verdict_fail("create() returned %d%s where the host has no extensions; "
                             "PST_ERR_UNSUPPORTED and a message are expected",
                             (int)status, rig.said[0] == '\0' ? " without a message" : "");
        }
        return;
    }
    for (i = 0; i < 6; i++) {
        struct pst_case question = pst_case_random(subject->seed, i);
        struct pst_answer answer;

        pst_ask_plugin(&rig, &question, &answer);
        if (answer.broken[0] != '\0') {
            pst_verdict_fail("%s (the host has no extensions)", answer.broken);
        }
        pst_answer_finish(&answer);
    }
    pst_rig_finish(&rig);
}
