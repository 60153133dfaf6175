// SPDX-License-Identifier: Apache-2.0
//
// Changes JSON texts so that they stay JSON: bytes that are flipped at random seldom get past a
// parser, and what is behind it would not be tested.
#pragma once

#include <string>
#include <string_view>

namespace kmeans::fuzz {

/// The text with one or a few values removed, replaced, copied, swapped or retyped. `lines`: one
/// JSON value a line, of which one is changed, moved or doubled. Empty where the text is no JSON.
std::string mutate_json(std::string_view text, bool lines, unsigned seed);

/// `first` with one value replaced by one of `second`, preferably by one of the same key.
std::string cross_json(std::string_view first, std::string_view second, bool lines, unsigned seed);

}  // namespace kmeans::fuzz
