#include "exporter/recent_events.h"

#include <iterator>

namespace cgpu::exporter {

const std::vector<Event>& RecentEvents::Read() {
  if (!reader_) {
    auto opened = EventReader::Open(folder_);
    if (!opened.ok()) {
      return newest_;
    }
    reader_ = std::move(*opened);
  }
  if (auto more = reader_->More(); more.ok()) {
    newest_.insert(newest_.begin(), std::make_move_iterator(more->rbegin()),
                   std::make_move_iterator(more->rend()));
  }
  if (newest_.size() > kRecentEvents) {
    newest_.resize(kRecentEvents);
  }
  return newest_;
}

}  // namespace cgpu::exporter
