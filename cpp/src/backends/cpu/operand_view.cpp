// Computes how an operand broadcasts to a result in the result's memory order.
#include "backends/cpu/operand_view.h"

namespace traingraph::cpu {

bool OperandView::dense() const {
  return dimensions.empty() || (dimensions.size() == 1 && dimensions[0].stride == 1);
}

bool OperandView::number() const {
  return dimensions.empty() || (dimensions.size() == 1 && dimensions[0].stride == 0);
}

std::optional<ChannelView> OperandView::by_channel() const {
  if (dense() || number()) return std::nullopt;
  ChannelView view;
  std::vector<Dimension> rest = dimensions;
  // What is innermost and not repeated lies side by side.
  if (rest.back().stride == 1) {
    view.lanes = rest.back().extent;
    rest.pop_back();
    if (!rest.empty() && rest.back().stride == 0) {
      view.space = rest.back().extent;
      rest.pop_back();
    }
  } else if (rest.back().stride == 0) {
    view.space = rest.back().extent;
    rest.pop_back();
  } else {
    return std::nullopt;
  }
  if (!rest.empty() && rest.back().stride == view.lanes) {
    view.channels = rest.back().extent;
    rest.pop_back();
  }
  if (!rest.empty() && rest.back().stride == 0) {
    view.batch = rest.back().extent;
    rest.pop_back();
  }
  if (!rest.empty()) return std::nullopt;
  return view;
}

OperandView view_of(const Shape& operand, const Shape& result, const ir::Layout& layout) {
  OperandView view;
  const std::vector<ir::PhysicalDimension> memory = ir::physical_dimensions(result, layout);
  if (operand == result) {
    const std::int64_t count = ir::padded_elements(result, layout);
    if (count != 1) view.dimensions.push_back({count, 1});
    return view;
  }
  const Shape strides = ir::dense_strides(operand);
  const std::size_t missing = result.size() - operand.size();
  std::vector<std::int64_t> inside(result.size(), 1);  // extent of the blocks further in
  std::vector<OperandView::Dimension> reversed;
  for (auto it = memory.rbegin(); it != memory.rend(); ++it) {
    const auto axis = static_cast<std::size_t>(it->axis);
    std::int64_t stride = 0;
    if (axis >= missing && operand[axis - missing] != 1) {
      stride = strides[axis - missing] * inside[axis];
    }
    inside[axis] *= it->extent;
    if (it->extent == 1) continue;
    if (!reversed.empty() && reversed.back().stride * reversed.back().extent == stride) {
      reversed.back().extent *= it->extent;
    } else {
      reversed.push_back({it->extent, stride});
    }
  }
  view.dimensions.assign(reversed.rbegin(), reversed.rend());
  return view;
}

}  // namespace traingraph::cpu
