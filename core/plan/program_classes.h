/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of buffers: each micro-batch makes one of a class. program_phases.c finds their lifetimes
 * by building the program of a few unrolled batches. Private to plan.
 */
#ifndef PST_PLAN_PROGRAM_CLASSES_H
#define PST_PLAN_PROGRAM_CLASSES_H

#include "plan/program_build.h"

enum { PST_CLASS_BUCKETS = 1024 };

struct pst_class {
    /* The key: a pass of a stage, a transfer of an edge, or a copy of an operator; and which of its
       buffers. */
    uint8_t op, payload, kind;
    uint32_t target, node, index;
    uint32_t next; /* row of the same bucket, PST_NONE at the end */
    /* Every buffer of the class has these. */
    uint32_t stage, what, slot;
    uint64_t bytes;
    /* When recording: lifetime by micro-batch; first > last if it made none. */
    uint32_t *first, *last;
    bool shared;                  /* a buffer of the class lives across parts */
    uint32_t period, first_value; /* if shared, else 0 */
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
