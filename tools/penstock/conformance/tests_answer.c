/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "conformance/answer.h"
#include "conformance/tests.h"
#include "conformance/verdict.h"

enum { QUESTIONS = 60, FEW = 12 };

static const struct pst_manners polite;

struct pst_case pst_case_random(uint64_t seed, uint32_t i)
{
    uint64_t state = seed * 1000003u + i;
    struct pst_case question = {.shape = i % PST_SHAPES};

    question.n_devices = (uint32_t)pst_random_between(&state, 1, 6);
    question.n_nodes = (uint32_t)pst_random_between(&state, question.n_devices, 24);
    question.n_microbatches = (uint32_t)pst_random_between(&state, 1, 12);
    question.memory = i % 4 == 3 ? PST_MEMORY_TIGHT : PST_MEMORY_AMPLE;
    question.seed = pst_random(&state);
    return question;
}

/* "a random graph of 12 nodes, 3 devices, 8 micro-batches (seed 1, question 4)"; returns text. */
static const char *case_text(const struct pst_case *question, char *text, size_t size)
{
    static const char *const shapes[] = {"a chain", "diamonds", "a random graph"};

    snprintf(text, size, "%s%s%s, %u nodes, %u devices, %u micro-batches%s",
             question->name != NULL ? question->name : "", question->name != NULL ? ": " : "",
             shapes[question->shape], question->n_nodes, question->n_devices,
             question->n_microbatches,
             question->memory == PST_MEMORY_AMPLE ? "" : ", little memory");
    return text;
}

/* Skips the rest where the plugin cannot be asked at all. */
static void start(struct pst_rig *rig, const struct pst_subject *subject,
                  const struct pst_manners *manners)
{
    pst_status status = pst_rig_init(rig, subject, manners);

    if (status != PST_OK) {
        pst_verdict_fail("create() failed with status %d%s%s", (int)status,
                         rig->said[0] != '\0' ? ": " : "", rig->said);
    }
}

/* One question to a new instance. *ret_said (or NULL): what it said of a refusal, room for 512. */
static void ask_new(const struct pst_subject *subject, const struct pst_manners *manners,
                    const struct pst_case *question, struct pst_answer *ret_answer, char *ret_said)
{
    struct pst_rig rig;

    start(&rig, subject, manners);
    pst_ask_plugin(&rig, question, ret_answer);
    if (ret_said != NULL) {
        snprintf(ret_said, sizeof rig.said, "%s", rig.said);
    }
    pst_rig_finish(&rig);
}

static void refuse_broken(const struct pst_case *question, const struct pst_answer *answer,
                          const struct pst_subject *subject)
{
    char text[256];

    if (answer->broken[0] != '\0') {
        pst_verdict_fail("%s (%s; seed %llu)", answer->broken,
                         case_text(question, text, sizeof text), (unsigned long long)subject->seed);
    }
}

/* --- what it leaves for the end of a thread and of the process ---------------------------------*/

static uint32_t crumb_of(const struct pst_subject *subject)
{
    return pst_breadcrumb_find(subject->plugin->kind, subject->plugin->id);
}

static void *ask_in_thread(void *subject_)
{
    const struct pst_subject *subject = subject_;
    const struct pst_case question = pst_case_random(subject->seed, 0);
    struct pst_answer answer;

    ask_new(subject, &polite, &question, &answer, NULL);
    pst_answer_finish(&answer);
    pst_breadcrumb_enter(crumb_of(subject), PST_CRUMB_END);
    return NULL;
}

static void arrive(void)
{
    pst_verdict_pass();
}

/* A thread ends that has asked it, then the process, where destructors and exit handlers run. */
static _Noreturn void end_process(struct pst_subject *subject)
{
    pthread_t thread;

    if (pst_traces_exit_differs()) {
        pst_verdict_fail("its calls leave an exit handler behind");
    }
    if (pthread_create(&thread, NULL, ask_in_thread, subject) == 0) {
        pthread_join(thread, NULL);
        pst_breadcrumb_leave();
    }
    pst_breadcrumb_enter(crumb_of(subject), PST_CRUMB_END);
    exit(0);
}

/* --- the tests ---------------------------------------------------------------------------------*/

void pst_test_answers(struct pst_subject *subject)
{
    uint32_t n_answered = 0, i;
    char refusal[512] = "";

    atexit(arrive); /* runs after those of the plugin */
    pst_traces_fill_exit();
    for (i = 0; i < QUESTIONS; i++) {
        struct pst_case question = pst_case_random(subject->seed, i);
        struct pst_answer answer;

        ask_new(subject, &polite, &question, &answer, refusal[0] == '\0' ? refusal : NULL);
        refuse_broken(&question, &answer, subject);
        n_answered += answer.status == PST_OK;
        pst_answer_finish(&answer);
    }
    if (n_answered == 0) {
        pst_verdict_fail("it refuses each of %d ordinary questions; the first message: %s",
                         QUESTIONS, refusal);
    }
    end_process(subject);
}

static const struct pst_case edges[] = {
    {"one device", 2, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 9, 1, 4, false},
    {"one node", 2, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 1, 1, 4, false},
    {"one node on several devices", 2, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 1, 4, 4, false},
    {"one micro-batch", 2, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 12, 4, 1, false},
    {"everything once", 2, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 1, 1, 1, false},
    {"more devices than nodes", 2, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 3, 8, 4, false},
    {"more devices than nodes", 3, PST_SHAPE_DIAMOND, PST_MEMORY_AMPLE, 3, 8, 4, false},
    {"as many devices as nodes", 2, PST_SHAPE_RANDOM, PST_MEMORY_AMPLE, 8, 8, 8, false},
    {"fewer micro-batches than devices", 2, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 16, 8, 2, false},
    {"no memory", 2, PST_SHAPE_CHAIN, PST_MEMORY_NONE, 12, 4, 4, false},
    {"no memory", 3, PST_SHAPE_RANDOM, PST_MEMORY_NONE, 12, 4, 4, false},
    {"huge numbers", 2, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 12, 4, 4, true},
    {"huge numbers", 3, PST_SHAPE_RANDOM, PST_MEMORY_TIGHT, 12, 4, 4, true},
    {"many devices", 3, PST_SHAPE_CHAIN, PST_MEMORY_AMPLE, 64, 32, 64, false},
};

void pst_test_edges(struct pst_subject *subject)
{
    size_t i;

    for (i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        struct pst_answer answer;

        ask_new(subject, &polite, &edges[i], &answer, NULL);
        refuse_broken(&edges[i], &answer, subject);
        pst_answer_finish(&answer);
    }
}

static void fail_different(const struct pst_case *question, const char *when)
{
    char text[256];

    pst_verdict_fail("the answer to the same question differs %s (%s)", when,
                     case_text(question, text, sizeof text));
}

void pst_test_repeats(struct pst_subject *subject)
{
    uint32_t i;

    for (i = 0; i < FEW; i++) {
        struct pst_case question = pst_case_random(subject->seed, i);
        struct pst_answer first, again;
        struct pst_rig rig;

        start(&rig, subject, &polite);
        pst_ask_plugin(&rig, &question, &first);
        pst_ask_plugin(&rig, &question, &again);
        if (!pst_answer_equal(&first, &again)) {
            fail_different(&question, "when it is asked twice");
        }
        pst_rig_finish(&rig);
        pst_answer_finish(&again);
        ask_new(subject, &polite, &question, &again, NULL);
        if (!pst_answer_equal(&first, &again)) {
            fail_different(&question, "from a new instance");
        }
        pst_verdict_digest(first.record, first.n_record);
        pst_answer_finish(&again);
        pst_answer_finish(&first);
    }
}

void pst_test_two_instances(struct pst_subject *subject)
{
    uint32_t i;

    for (i = 0; i < FEW; i++) {
        struct pst_case question = pst_case_random(subject->seed, i);
        struct pst_case other = pst_case_random(subject->seed, i + FEW);
        struct pst_answer alone, beside, different;
        struct pst_rig a, b;

        ask_new(subject, &polite, &question, &alone, NULL);
        start(&a, subject, &polite);
        start(&b, subject, &polite);
        pst_ask_plugin(&b, &other, &different);
        pst_ask_plugin(&a, &question, &beside);
        if (!pst_answer_equal(&alone, &beside)) {
            fail_different(&question, "beside a second instance");
        }
        pst_rig_finish(&b);
        pst_answer_finish(&different);
        pst_answer_finish(&beside);
        /* The one that is left must not notice. */
        pst_ask_plugin(&a, &question, &beside);
        if (!pst_answer_equal(&alone, &beside)) {
            fail_different(&question, "after a second instance has been destroyed");
        }
        pst_rig_finish(&a);
        pst_answer_finish(&beside);
        pst_answer_finish(&alone);
    }
}

/* Whoever steps through an array by its own sizeof, or compares sizes for equality, is found. */
void pst_test_newer_host(struct pst_subject *subject)
{
    static const struct pst_manners newer = {.newer = true};
    uint32_t i;

    for (i = 0; i < FEW; i++) {
        struct pst_case question = pst_case_random(subject->seed, i);
        struct pst_answer now, later;

        ask_new(subject, &polite, &question, &now, NULL);
        ask_new(subject, &newer, &question, &later, NULL);
        if (!pst_answer_equal(&now, &later)) {
            pst_verdict_fail("its answer differs when the elements of arrays are longer than in "
                             "its headers; use the accessors%s%s",
                             later.broken[0] != '\0' ? ": " : "", later.broken);
        }
        pst_answer_finish(&later);
        pst_answer_finish(&now);
    }
}
