//! Runs one plan again and again and prints what it did; time it from outside.
//!
//! `time target/release/examples/throughput satellite null 3`: a download of 100 MB over a geostationary satellite,
//! three times.

use thalweg_link::queue::CoDel;
use thalweg_link::{DirectionConfig, QueueLimit, RateModel, Spread};
use thalweg_sim::traffic::Flows;
use thalweg_sim::{Crypto, FlowPlan, PathPlan, Plan, Record, Size, Traffic, run};
use thalweg_units::Duration;

fn link(rate: &str, delay_ms: u64, queue: &str) -> Result<DirectionConfig, Box<dyn std::error::Error>> {
    Ok(DirectionConfig {
        rate: RateModel::Constant(rate.parse()?),
        delay: Duration::from_millis(delay_ms).into(),
        queue: queue.parse()?,
        ..DirectionConfig::default()
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |n: usize, default: &str| args.get(n).map_or_else(|| default.to_owned(), Clone::clone);
    let home = || link("50 Mbps", 25, "1 BDP");
    let download = |bytes| Traffic::download(Some(bytes));
    let (path, traffic) = match arg(0, "satellite").as_str() {
        "satellite" => (
            PathPlan::new("sat", link("3 Mbps", 300, "600 ms")?, link("250 Mbps", 300, "1 BDP")?),
            download(100_000_000),
        ),
        "home" => (PathPlan::new("home", home()?, home()?), download(20_000_000)),
        "flows" => {
            let traffic = Traffic::Flows(Flows {
                count: 5000,
                arrivals: Spread::Exponential(Duration::from_millis(5)),
                size: Size::Pareto { scale: 5_000, shape: 1.3 },
                new_connections: true,
            });
            (PathPlan::new("home", home()?, home()?), traffic)
        }
        "tcp" => {
            let down = DirectionConfig {
                discipline: CoDel::default().into(),
                queue: QueueLimit::Infinite,
                ..link("20 Mbps", 50, "1 BDP")?
            };
            let up = DirectionConfig { delay: Duration::from_millis(50).into(), ..DirectionConfig::default() };
            (PathPlan::new("codel", up, down), Traffic::download(None))
        }
        _ => {
            let usage = "give \"satellite\", \"home\", \"flows\" or \"tcp\", then \"real\" or \"null\", then how often, then \"nohash\"";
            return Err(usage.into());
        }
    };
    let mut flows = vec![FlowPlan::new("download", traffic)];
    let mut time_limit = Plan::default().time_limit;
    if arg(0, "satellite") == "tcp" {
        // Four of them for ten seconds.
        flows[0].stack = "tcp".to_owned();
        flows = (0..4).map(|n| FlowPlan { name: n.to_string(), ..flows[0].clone() }).collect();
        time_limit = Duration::from_secs(10);
    }
    let plan = Plan {
        paths: vec![path],
        flows,
        time_limit,
        crypto: if arg(1, "real") == "null" { Crypto::Null } else { Crypto::Real },
        record: Record { hash: arg(3, "hash") == "hash", ..Record::default() },
        ..Plan::default()
    };
    let (mut events, mut datagrams) = (0, 0);
    for seed in 1..=arg(2, "1").parse()? {
        let result = run(&Plan { seed, ..plan.clone() })?;
        events += result.events;
        datagrams += result.datagrams;
        let (flow, floor) = (&result.flows[0], result.flows[0].floor);
        println!(
            "seed {seed}: {:?} (floor {:?}), {} lost, {} spurious, window {}, limited by {:?}, hash {:032x} {}",
            flow.completion,
            floor.map(|floor| floor.total),
            flow.server.stats.path.packets_lost,
            flow.server.stats.path.packets_spurious,
            flow.server.stats.path.max_window,
            flow.server.limited_by,
            result.wire_hash,
            result.failed.unwrap_or_default(),
        );
    }
    println!("{events} link events, {datagrams} datagrams");
    Ok(())
}
