/* SPDX-License-Identifier: Apache-2.0 */
#include "config/toml.h"

#include <cstdio>
#include <string_view>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

static bool walk(const toml::node &node, pst_toml_event event, pst_toml_visit *visit, void *self)
{
    event.line = node.source().begin.line;
    event.column = node.source().begin.column;
    if (const toml::table *table = node.as_table()) {
        event.kind = PST_TOML_TABLE;
        event.count = table->size();
        if (!visit(self, &event)) {
            return false;
        }
        for (const auto &[key, child] : *table) {
            pst_toml_event next = {};

            next.key = key.str().data();
            next.key_length = key.str().size();
            next.key_line = key.source().begin.line;
            next.key_column = key.source().begin.column;
            if (!walk(child, next, visit, self)) {
                return false;
            }
        }
    } else if (const toml::array *array = node.as_array()) {
        event.kind = PST_TOML_ARRAY;
        event.count = array->size();
        if (!visit(self, &event)) {
            return false;
        }
        for (const toml::node &child : *array) {
            if (!walk(child, pst_toml_event{}, visit, self)) {
                return false;
            }
        }
    } else {
        event.kind = PST_TOML_OTHER;
        if (const auto *string = node.as_string()) {
            event.kind = PST_TOML_STRING;
            event.string = (*string)->data();
            event.string_length = (*string)->size();
        } else if (const auto *integer = node.as_integer()) {
            event.kind = PST_TOML_INT;
            event.integer = **integer;
        } else if (const auto *number = node.as_floating_point()) {
            event.kind = PST_TOML_FLOAT;
            event.number = **number;
        } else if (const auto *boolean = node.as_boolean()) {
            event.kind = PST_TOML_BOOL;
            event.boolean = **boolean;
        }
        return visit(self, &event);
    }
    event = {};
    event.kind = PST_TOML_END;
    return visit(self, &event);
}

extern "C" enum pst_toml_result pst_toml_read(const char *text, size_t length,
                                              pst_toml_visit *visit, void *self,
                                              struct pst_toml_fault *ret_fault)
{
    const toml::parse_result result = toml::parse(std::string_view(text, length));

    if (!result) {
        const std::string_view words = result.error().description();

        ret_fault->line = result.error().source().begin.line;
        ret_fault->column = result.error().source().begin.column;
        std::snprintf(ret_fault->message, sizeof ret_fault->message, "%.*s",
                      static_cast<int>(words.size()), words.data());
        return PST_TOML_SYNTAX;
    }
    return walk(result.table(), pst_toml_event{}, visit, self) ? PST_TOML_OK : PST_TOML_STOPPED;
}
