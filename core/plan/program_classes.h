/* SPDX-License-Identifier: Apache-2.0
 *
 * What every micro-batch makes alike, and how long it lives: program_phases.c. Found by building
 * the program of a few batches, written out one after the other. Private to plan.
 */
#ifndef PST_PLAN_PROGRAM_CLASSES_H
#define PST_PLAN_PROGRAM_CLASSES_H

#include "plan/program_build.h"

enum { PST_CLASS_BUCKETS = 1024 };

struct pst_class {
    /* What names it: a pass of a stage, a transfer of an edge, or a copy of an operator, and which
       of its buffers. */
    uint8_t op, payload, kind;
    uint32_t target, node, index;
    uint32_t next; /* row of the same bucket, PST_NONE at the end */
    /* Of each of its buffers. */
    uint32_t stage, what, slot;
    uint64_t bytes;
    /* A recording: by micro-batch; first > last where it made none. */
    uint32_t *first, *last;
    bool shared;                  /* one of them lives across parts */
    uint32_t period, first_value; /* of the shared ones; 0 of others */
};

struct pst_classes {
    struct pst_arena arena;
    bool recording;
    struct pst_class *rows;
    size_t room, room_of_value;
    uint32_t n, n_of_value;
    uint32_t *class_of_value; /* recording: PST_NONE where it cannot live across parts */
    uint32_t buckets[PST_CLASS_BUCKETS];
};

void pst_classes_finish(struct pst_classes *classes);

#endif
