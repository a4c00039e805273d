#include "tools/bench_report.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <utility>

#include <linux/magic.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tools/table.h"
#include "tools/units.h"

namespace holdfast::tools {
namespace {

using bench::Row;
using bench::Side;
using Json = nlohmann::ordered_json;

constexpr const char* kCaches =
    "O_DIRECT on both sides of flash and of the disk tier; the device below may have a cache of "
    "its own (a host's, on a virtual machine), for both sides alike.";

std::string FileSystemOf(const std::string& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0) return "unknown";
  constexpr std::pair<uint64_t, const char*> kKnown[] = {
      {EXT4_SUPER_MAGIC, "ext4"}, {XFS_SUPER_MAGIC, "xfs"},           {BTRFS_SUPER_MAGIC, "btrfs"},
      {TMPFS_MAGIC, "tmpfs"},     {OVERLAYFS_SUPER_MAGIC, "overlay"}, {F2FS_SUPER_MAGIC, "f2fs"},
      {NFS_SUPER_MAGIC, "nfs"}};
  for (const auto& [magic, name] : kKnown) {
    if (static_cast<uint64_t>(info.f_type) == magic) return name;
  }
  return "type " + std::to_string(info.f_type);
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

double Micros(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

std::string DepthOf(const Row& row) { return row.compared ? std::to_string(row.in_flight) : ""; }

std::string RangeOf(const bench::Spread& spread, int digits) {
  return FormatDecimal(spread.median, digits) + " (" + FormatDecimal(spread.least, digits) + ".." +
         FormatDecimal(spread.most, digits) + ")";
}

Table Comparisons(const std::vector<Row>& rows) {
  Table table({"tier op", "payload", "in flight", "GB/s", "limit GB/s", "ratio (min..max)", "p50",
               "p99", "limit p50", "limit p99", "CPU s/GB", "limit CPU s/GB", "limit"});
  for (const Row& row : rows) {
    if (!row.compared) continue;
    const Side& store = row.compared->store;
    const Side& limit = row.compared->limit;
    table.Add({row.tier + " " + row.op, FormatBytes(row.payload_bytes), DepthOf(row),
               FormatDecimal(store.gigabytes_per_second.median, 2),
               FormatDecimal(limit.gigabytes_per_second.median, 2), RangeOf(row.compared->ratio, 2),
               FormatDuration(store.p50), FormatDuration(store.p99), FormatDuration(limit.p50),
               FormatDuration(limit.p99), FormatDecimal(store.cpu_seconds_per_gigabyte, 3),
               FormatDecimal(limit.cpu_seconds_per_gigabyte, 3), row.against});
  }
  return table;
}

Table Figures(const std::vector<Row>& rows) {
  Table table({"tier op", "payload", "figure", "value"});
  for (const Row& row : rows) {
    for (const bench::Figure& figure : row.figures) {
      table.Add({row.tier + " " + row.op,
                 row.payload_bytes > 0 ? FormatBytes(row.payload_bytes) : "", figure.name,
                 FormatDecimal(figure.value, 3)});
    }
  }
  return table;
}

Table Wants(const std::vector<Row>& rows) {
  Table table({"wanted", "tier", "payload", "value", "seen", "met"});
  for (const Row& row : rows) {
    for (const bench::Want& want : row.wants) {
      table.Add({want.what, row.tier, row.payload_bytes > 0 ? FormatBytes(row.payload_bytes) : "",
                 (want.at_least ? ">= " : "<= ") + FormatDecimal(want.wanted, 2),
                 FormatDecimal(want.seen, 3), want.met() ? "yes" : "no"});
    }
  }
  return table;
}

Json SpreadJson(const bench::Spread& spread) {
  return {{"least", spread.least}, {"median", spread.median}, {"most", spread.most}};
}

Json SideJson(const Side& side) {
  return {{"gigabytes_per_second", SpreadJson(side.gigabytes_per_second)},
          {"latency_p50_us", Micros(side.p50)},
          {"latency_p99_us", Micros(side.p99)},
          {"cpu_seconds_per_gigabyte", side.cpu_seconds_per_gigabyte}};
}

Json RowJson(const Row& row) {
  Json json = {{"tier", row.tier},
               {"op", row.op},
               {"in_flight", row.in_flight},
               {"payload_bytes", row.payload_bytes},
               {"ratio_median", nullptr}};
  if (row.compared) {
    json["ratio_median"] = row.compared->ratio.median;
    json["ratio_least"] = row.compared->ratio.least;
    json["ratio_most"] = row.compared->ratio.most;
    json["against"] = row.against;
    json["store"] = SideJson(row.compared->store);
    json["limit"] = SideJson(row.compared->limit);
  }
  for (const bench::Figure& figure : row.figures) json[figure.name] = figure.value;
  Json wants = Json::array();
  for (const bench::Want& want : row.wants) {
    wants.push_back({{"what", want.what},
                     {"at_least", want.at_least},
                     {"wanted", want.wanted},
                     {"seen", want.seen},
                     {"met", want.met()}});
  }
  if (!wants.empty()) json["wants"] = std::move(wants);
  return json;
}

}  // namespace

BenchMachine DescribeMachine(const std::string& directory) {
  BenchMachine machine;
  machine.commit = HOLDFAST_COMMIT;
  machine.cpu = CpuModel();
  const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
  machine.cpus = cpus > 0 ? static_cast<unsigned>(cpus) : 0;
  struct utsname name {};
  if (::uname(&name) == 0) machine.kernel = std::string(name.sysname) + " " + name.release;
  machine.file_system = FileSystemOf(directory);
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!std::getline(file, machine.huge_pages)) machine.huge_pages = "unknown";
  return machine;
}

std::string BenchText(const bench::TiersBenchReport& report, const BenchMachine& machine) {
  std::string text = "holdfast " HOLDFAST_VERSION;
  if (!machine.commit.empty()) text += " (" + machine.commit + ")";
  text += ", " + machine.cpu + ", " + std::to_string(machine.cpus) + " CPUs, " + machine.kernel +
          ", " + machine.file_system + ", huge pages " + machine.huge_pages + "\n";
  const std::pair<const char*, const std::string*> engines[] = {
      {"ddr", &report.ddr_engine}, {"flash", &report.flash_engine}, {"disk", &report.disk_engine}};
  for (const auto& [tier, engine] : engines) {
    if (!engine->empty()) text += std::string(tier) + ": " + *engine + "\n";
  }
  text += std::string(kCaches) + "\n\n" + Comparisons(report.rows).ToString();
  text += "\n" + Figures(report.rows).ToString();
  text += "\n" + Wants(report.rows).ToString();
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  return text;
}

std::string BenchJson(const bench::TiersBenchReport& report, const BenchMachine& machine,
                      const bench::TiersBenchOptions& options) {
  Json json = {{"version", HOLDFAST_VERSION},
               {"commit", machine.commit.empty() ? Json() : Json(machine.commit)},
               {"cpu", machine.cpu},
               {"cpus", machine.cpus},
               {"kernel", machine.kernel},
               {"file_system", machine.file_system},
               {"huge_pages", machine.huge_pages},
               {"ddr_engine", report.ddr_engine},
               {"io_engine", report.flash_engine},
               {"disk_engine", report.disk_engine},
               {"caches", kCaches},
               {"rounds", options.rounds},
               {"cell_seconds", std::chrono::duration<double>(options.cell).count()},
               {"size_bytes", options.size_bytes},
               {"write_bytes", options.write_bytes},
               {"seed", options.seed}};
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(RowJson(row));
  json["rows"] = std::move(rows);
  json["notes"] = report.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace holdfast::tools
