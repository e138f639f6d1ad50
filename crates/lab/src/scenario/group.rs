//! Groups of flows that are alike, and bandwidth-delay products of the ways that flows take.

use thalweg_link::{Chain, PathConfig};
use thalweg_sim::Traffic;
use thalweg_units::{Rate, math};

use super::world::FlowSpec;

/// The most flows; for more short ones there is `short_flows`.
pub(super) const MOST_FLOWS: usize = 10_000;

/// The paths and chains of a world, for what is measured by them.
#[derive(Copy, Clone)]
pub(super) struct Ways<'a> {
    pub(super) paths: &'a [PathConfig],
    pub(super) chains: &'a [Chain],
}

impl Ways<'_> {
    /// The paths that a path or chain of this name stands for; none if one of them could not be read.
    fn hops(&self, name: &str) -> Option<Vec<&PathConfig>> {
        let find = |name: &str| self.paths.iter().find(|path| path.name == name);
        match self.chains.iter().find(|chain| chain.name == name) {
            Some(chain) => chain.hops.iter().map(|hop| find(hop)).collect(),
            None => Some(vec![find(name)?]),
        }
    }

    /// So many thousandths of the bandwidth-delay product of a path: the rate of its slowest direction that the data
    /// cross, times its fixed delays in both directions. Rounded down to whole bytes.
    pub(super) fn bdp(&self, path: &str, up: bool, thousandths: u64) -> Result<u64, &'static str> {
        // What is wrong with the path has been said there.
        let hops = self.hops(path).ok_or("needs a path that can be read")?;
        let directions = hops.iter().map(|path| if up { &path.up } else { &path.down });
        let rate = directions.map(|direction| direction.rate.nominal()).min().unwrap_or(Rate::ZERO);
        let round_trip = hops.iter().map(|path| path.round_trip()).sum();
        if rate == Rate::MAX {
            return Err("is measured by a path of unlimited rate; write bytes, such as \"6 MB\"");
        }
        match math::mul_div(rate.bytes_in(round_trip), thousandths, 1_000) {
            0 => Err("is less than a byte; write a larger multiple, or bytes such as \"6 MB\""),
            bytes => Ok(bytes),
        }
    }
}

/// The flows of a group of so many: `NAME-1`, `NAME-2`, …, each with the traffic of its place, or all with the only
/// one; the flow itself without a count.
pub(super) fn flows(flow: FlowSpec, count: Option<u64>, traffic: &[Traffic]) -> Vec<FlowSpec> {
    let Some(count) = count else { return vec![flow] };
    let of = |(number, traffic): (u64, &Traffic)| {
        let mut one = flow.clone();
        one.name = format!("{}-{number}", flow.name);
        one.traffic = traffic.clone();
        one
    };
    (1..=count).zip(traffic.iter().cycle()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use crate::scenario::tests::parse;
    use crate::scenario::{Scenario, ScenarioError};

    fn read(flow: &str, rest: &str) -> Result<Scenario, ScenarioError> {
        parse(&format!(
            "title = \"t\"\nquestion = \"q\"\n[path.near]\ndown = {{ rate = \"20 Mbps\", delay = \"30 ms\" }}\n\
             up = {{ rate = \"2 Mbps\", delay = \"20 ms\" }}\n[path.access]\ndown = {{ rate = \"unlimited\", delay = \"40 ms\" }}\n\
             up = {{ rate = \"unlimited\", delay = \"10 ms\" }}\n[path.far]\nhops = [\"access\", \"near\"]\n\
             [[flow]]\nname = \"a\"\n{flow}\n{rest}"
        ))
    }

    fn sizes(flow: &str) -> Vec<(String, u64)> {
        let scenario = read(flow, "").unwrap_or_else(|error| panic!("{error}"));
        let flows = scenario.points[0].world.flows.iter();
        flows
            .map(|flow| match flow.traffic.bulk().and_then(|bulk| bulk.bytes) {
                Some(bytes) => (flow.name.clone(), bytes),
                None => panic!("{:?}", flow.traffic),
            })
            .collect()
    }

    #[track_caller]
    fn refused(flow: &str, key: &str, needle: &str) {
        let error = read(flow, "").expect_err(flow);
        let found = error.diagnostics.iter().find(|found| found.key == key);
        let found = found.unwrap_or_else(|| panic!("nothing about {key}: {error}"));
        assert!(found.message.contains(needle), "{found}");
    }

    #[test]
    fn a_size_in_bdp_is_rate_times_round_trip_of_the_path_that_the_flow_takes() {
        // 20 Mbps × 50 ms are 125 kB, 2 Mbps × 50 ms 12.5 kB, and 20 Mbps × 100 ms 250 kB.
        let one = |flow: &str| sizes(flow)[0].1;
        assert_eq!(one("path = \"near\"\ntransfer = { download = \"12 BDP\" }"), 1_500_000);
        assert_eq!(one("path = \"near\"\ntransfer = { upload = \"12 BDP\" }"), 150_000);
        assert_eq!(one("path = \"far\"\ntransfer = { download = \"0.5 BDP\" }"), 125_000);
        refused(
            "path = \"access\"\ntransfer = { download = \"12 BDP\" }",
            "flow.0.transfer.download",
            "unlimited rate",
        );
        for wrong in ["BDP", "0 BDP", "-1 BDP", "1.00001 BDP", "many BDP"] {
            let flow = format!("path = \"near\"\ntransfer = {{ download = \"{wrong}\" }}");
            refused(&flow, "flow.0.transfer.download", "such as \"12 BDP\"");
        }
    }

    #[test]
    fn a_group_has_a_name_for_each_flow_and_shares_to_the_last_byte() {
        let names = |flow: &str| sizes(flow).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let each = "path = \"near\"\ntransfer = { download = \"1 MB\" }";
        assert_eq!(names(each), ["a"]);
        assert_eq!(names(&format!("{each}\ncount = 1")), ["a-1"]);
        let three = sizes(&format!("{each}\ncount = 3"));
        assert_eq!(three, ["a-1", "a-2", "a-3"].map(|name| (name.to_owned(), 1_000_000)));
        let shared = sizes("path = \"near\"\ncount = 3\ntransfer = { download = \"1 MB\", shared = true }");
        assert_eq!(shared.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [333_334, 333_333, 333_333]);
        let bdp = sizes("path = \"near\"\ncount = 4\ntransfer = { download = \"12 BDP\", shared = true }");
        assert!(bdp.iter().all(|(_, bytes)| *bytes == 375_000), "{bdp:?}");
    }

    #[test]
    fn the_count_can_be_varied() {
        let flow = "path = \"near\"\ntransfer = { download = \"12 BDP\", shared = true }\ncount = 1";
        let rest = "[vary]\n\"flow.a.count\" = [1, 4]\n[[expect]]\nmetric = \"success\"\nequals = 1\n";
        let scenario = read(flow, rest).unwrap_or_else(|error| panic!("{error}"));
        let counts: Vec<usize> = scenario.points.iter().map(|point| point.world.flows.len()).collect();
        assert_eq!(counts, [1, 4]);
        assert_eq!(scenario.points[1].labels, ["4"]);
    }

    #[test]
    fn groups_that_cannot_be_are_refused() {
        let each = "path = \"near\"\ntransfer = { download = \"1 MB\" }";
        refused(&format!("{each}\ncount = 0"), "flow.0.count", "1 to 10000");
        refused(&format!("{each}\ncount = 10000000"), "flow.0.count", "1 to 10000");
        refused(&format!("{each}\ncount = \"four\""), "flow.0.count", "whole number");
        refused(
            "path = \"near\"\ntransfer = { download = \"1 MB\", shared = true }",
            "flow.0.transfer.shared",
            "count",
        );
        let few = "path = \"near\"\ncount = 9\ntransfer = { download = \"8 B\", shared = true }";
        refused(few, "flow.0", "nothing to transfer");
        let endless = "path = \"near\"\ncount = 2\ntransfer = { download = \"endless\", shared = true }";
        refused(endless, "flow.0.transfer.shared", "without end");
        // All groups together count.
        let more = "[[flow]]\nname = \"b\"\npath = \"near\"\ncount = 9999\ntransfer = { download = \"1 MB\" }";
        let error = read(&format!("{each}\ncount = 2"), more).unwrap_err().to_string();
        assert!(error.contains("10001 flows"), "{error}");
        // As do the names that a group gives.
        let twin = "[[flow]]\nname = \"a-2\"\npath = \"near\"\ntransfer = { download = \"1 MB\" }";
        let error = read(&format!("{each}\ncount = 2"), twin).unwrap_err().to_string();
        assert!(error.contains("two flows named \"a-2\""), "{error}");
    }
}
