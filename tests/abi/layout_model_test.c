/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the ABI that models are built through (since 1.5) and data is read through (since
 * 1.7), as layout_test.c has the rest.
 */
#include "layout.h"

#include "test.h"

LAYOUT(pst_input_decl, 32, size, 0, field, 4, name, 8, dtype, 16, rank, 20, dims, 24);
LAYOUT(pst_parameter_decl, 40, size, 0, init, 4, name, 8, rank, 16, decay, 20, dims, 24, value, 32);
LAYOUT(pst_op_decl, 272, size, 0, kind, 4, name, 8, n_in, 16, n_param, 20, in, 24, param, 32, act,
       40, transposed, 44, causal, 48, heads, 52, kv_heads, 56, window, 60, head_dim, 64,
       max_distance, 68, scale, 72);
LAYOUT(pst_op_decl, 272, rope, 76, experts_per_token, 100, normalize, 104, capacity, 108, aux_loss,
       112, bag, 116, kernel, 120, stride, 128, pad, 136, pad_more, 144, dilation, 152, groups, 160,
       whole, 164, p, 168, eps, 172, momentum, 176);
LAYOUT(pst_op_decl, 272, map, 180, reduce, 184, constants, 188, axis, 196, axes, 200, swapped, 204,
       logarithm, 212, rank, 216, dims, 224, from, 232, start, 240, step, 248, fill, 256, dtype,
       260, data, 264);
LAYOUT(pst_builder, 72, size, 0, dtype, 4, impl, 8, scope, 16, layer, 24, input, 32, parameter, 40,
       op, 48, shape, 56, custom, 64);
LAYOUT(pst_custom_decl, 56, size, 0, n_in, 4, n_param, 8, plugin, 16, name, 24, attributes, 32, in,
       40, param, 48);
LAYOUT(pst_operand, 72, dtype, 0, rank, 4, dims, 8);
LAYOUT(pst_operator_question, 32, size, 0, dtype, 4, n_x, 8, n_p, 12, x, 16, p, 24);
LAYOUT(pst_operator_row, 440, size, 0, n_y, 4, y, 8, b_reads_x, 224, w_reads_x, 232, b_reads_p, 240,
       b_reads_y, 244, w_reads_p, 248, w_reads_y, 252, w_reads_dy, 256, n_z, 260, z, 264, z_once,
       408, flags, 412, flops, 416);
LAYOUT(pst_operator_call, 120, size, 0, pass, 4, samples, 8, flags, 12, question, 16, row, 24, x, 32,
       p, 40, y, 48, dy, 56, dx, 64, z, 72, dp, 80, workspace, 88, first_sample, 96, impl, 104,
       parallel, 112);
LAYOUT(pst_operator_kernels, 24, size, 0, dtypes, 4, workspace, 8, run, 16);
LAYOUT(pst_operator_example, 784, size, 0, n_x, 4, n_p, 8, x, 16, p, 592, low, 736, high, 744, below,
       752);
LAYOUT(pst_operator, 32, size, 0, describe, 8, kernels, 16, example, 24);
VALUE(PST_OPERATOR_COSTLY, 1);
VALUE(PST_OPERATOR_TRAINING, 1);
VALUE(PST_OPERATOR_REPLAY, 2);
VALUE(PST_OPERATOR_F, 0);
VALUE(PST_OPERATOR_B, 1);
VALUE(PST_OPERATOR_W, 2);
VALUE(PST_OPERATOR_MAX_Y, 3);
VALUE(PST_OPERATOR_MAX_P, 2);
VALUE(PST_OPERATOR_MAX_Z, 2);
VALUE(PST_OPERATOR_MAX_X, 8);
LAYOUT(pst_model_interface, 16, size, 0, build, 8);
LAYOUT(pst_data_input, 56, name, 0, field, 8, dtype, 12, rank, 16, dims, 24, elems, 32, bytes, 40,
       range, 48);
LAYOUT(pst_data_shape, 32, size, 0, n_inputs, 4, input_size, 8, inputs, 16, seed, 24);
LAYOUT(pst_data_interface, 32, size, 0, open, 8, samples, 16, read, 24);
VALUE(PST_SPLIT_TRAIN, 0);
VALUE(PST_SPLIT_VALID, 1);
LAYOUT(pst_rope, 24, scaling, 0, theta, 4, factor, 8, low_freq_factor, 12, high_freq_factor, 16,
       context, 20);
VALUE(PST_MAX_RANK, 8);
VALUE(PST_F32, 0);
VALUE(PST_BF16, 1);
VALUE(PST_F64, 2);
VALUE(PST_I32, 3);
VALUE(PST_FIELD_NONE, 0);
VALUE(PST_FIELD_X, 1);
VALUE(PST_FIELD_TARGET, 2);
VALUE(PST_FIELD_MASKED, 3);
VALUE(PST_FIELD_SEGMENT, 4);
VALUE(PST_FIELD_SHIFTED, 5);
VALUE(PST_INIT_ZERO, 0);
VALUE(PST_INIT_ONE, 1);
VALUE(PST_INIT_NORMAL, 2);
VALUE(PST_INIT_UNIFORM, 3);
VALUE(PST_INIT_CONSTANT, 4);
VALUE(PST_OP_EMBEDDING, 0);
VALUE(PST_OP_LINEAR, 1);
VALUE(PST_OP_LAYERNORM, 2);
VALUE(PST_OP_ATTENTION, 3);
VALUE(PST_OP_ADD, 4);
VALUE(PST_OP_DROPOUT, 5);
VALUE(PST_OP_ACT, 6);
VALUE(PST_OP_CROSS_ENTROPY, 7);
VALUE(PST_OP_CONV2D, 8);
VALUE(PST_OP_BATCHNORM, 9);
VALUE(PST_OP_MAXPOOL2D, 10);
VALUE(PST_OP_AVGPOOL, 11);
VALUE(PST_OP_CONCAT, 12);
VALUE(PST_OP_MSE, 13);
VALUE(PST_OP_RMSNORM, 14);
VALUE(PST_OP_AVGPOOL2D, 15);
VALUE(PST_OP_SHIFT2D, 16);
VALUE(PST_OP_ROTARY, 17);
VALUE(PST_OP_GLU, 18);
VALUE(PST_OP_QKNORM, 19);
VALUE(PST_OP_ROUTER, 20);
VALUE(PST_OP_EXPERTS, 21);
VALUE(PST_OP_PARAMETER, 22);
VALUE(PST_OP_CONSTANT, 23);
VALUE(PST_OP_MAP, 24);
VALUE(PST_OP_REDUCE, 25);
VALUE(PST_OP_SOFTMAX, 26);
VALUE(PST_OP_MATMUL, 27);
VALUE(PST_OP_RESHAPE, 28);
VALUE(PST_OP_STRIDED, 29);
VALUE(PST_OP_BCE, 30);
VALUE(PST_OP_GATHER, 31);
VALUE(PST_BAG_NONE, 0);
VALUE(PST_BAG_CONCAT, 1);
VALUE(PST_BAG_SUM, 2);
VALUE(PST_ACT_NONE, 0);
VALUE(PST_ACT_RELU, 1);
VALUE(PST_ACT_GELU, 2);
VALUE(PST_ACT_SILU, 3);
VALUE(PST_ROPE_NONE, 0);
VALUE(PST_ROPE_LINEAR, 1);
VALUE(PST_ROPE_LLAMA3, 2);
VALUE(PST_MAP_AFFINE, 0);
VALUE(PST_MAP_POWER, 1);
VALUE(PST_MAP_CLIP, 2);
VALUE(PST_MAP_LEAKY, 3);
VALUE(PST_MAP_ELU, 4);
VALUE(PST_MAP_HARD_SIGMOID, 5);
VALUE(PST_MAP_HARD_SWISH, 6);
VALUE(PST_MAP_ABS, 7);
VALUE(PST_MAP_EXP, 8);
VALUE(PST_MAP_LOG, 9);
VALUE(PST_MAP_SQRT, 10);
VALUE(PST_MAP_RECIPROCAL, 11);
VALUE(PST_MAP_ERF, 12);
VALUE(PST_MAP_TANH, 13);
VALUE(PST_MAP_SIGMOID, 14);
VALUE(PST_MAP_GELU, 15);
VALUE(PST_MAP_SOFTPLUS, 16);
VALUE(PST_MAP_SIN, 17);
VALUE(PST_MAP_COS, 18);
VALUE(PST_MAP_ADD, 19);
VALUE(PST_MAP_SUB, 20);
VALUE(PST_MAP_MUL, 21);
VALUE(PST_MAP_DIV, 22);
VALUE(PST_MAP_POW, 23);
VALUE(PST_MAP_MIN, 24);
VALUE(PST_MAP_MAX, 25);
VALUE(PST_MAP_EQUAL, 26);
VALUE(PST_MAP_LESS, 27);
VALUE(PST_MAP_LESS_EQUAL, 28);
VALUE(PST_MAP_SELECT, 29);
VALUE(PST_REDUCE_SUM, 0);
VALUE(PST_REDUCE_MEAN, 1);
VALUE(PST_REDUCE_MAX, 2);

TEST(test_words)
{
    assert_string_equal(PST_MODEL, "pst.model/1");
    assert_string_equal(PST_DATA, "pst.data/1");
}
