//! The log of a run, read while it is written.

use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex};

use thalweg_proto::observe::{ObservedConnection, Observer, ObserverFactory};
use thalweg_proto::qlog::QlogWriter;
use thalweg_why::world::World;
use thalweg_why::{Answer, Log, WhyError};

use crate::kept::Kept;

/// Where the log of the one connection goes.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Log>>);

impl core::fmt::Debug for Sink {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Sink")
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().feed(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ObserverFactory for Sink {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        let out = BufWriter::with_capacity(1 << 16, self.clone());
        Some(Box::new(QlogWriter::new(out, connection, None).unwrap()))
    }
}

impl ObserverFactory for Kept {
    fn build(&self, connection: &ObservedConnection<'_>) -> Option<Box<dyn Observer>> {
        let out = BufWriter::with_capacity(1 << 16, self.clone());
        Some(Box::new(QlogWriter::new(out, connection, None).unwrap()))
    }
}

/// The log of a world's sender.
#[allow(dead_code)]
pub fn log(world: &World) -> Vec<u8> {
    let kept = Kept::default();
    world.run(Some(Arc::new(kept.clone()))).unwrap();
    kept.take()
}

/// The logs of a world's client and of its server.
#[allow(dead_code)]
pub fn both_logs(world: &World) -> [Vec<u8>; 2] {
    let ends = [Kept::default(), Kept::default()];
    let mut plan = world.plan(None);
    plan.flows[0].observers = ends.each_ref().map(|end| Some(Arc::new(end.clone()) as Arc<dyn ObserverFactory>));
    thalweg_sim::run(&plan).unwrap();
    ends.each_ref().map(Kept::take)
}

/// What the logs of both ends of a world are answered with.
#[allow(dead_code)]
pub fn answer_of_both(world: &World) -> Result<Answer, WhyError> {
    let [client, server] = both_logs(world);
    let (sender, receiver) = if world.load.is_up { (client, server) } else { (server, client) };
    let mut log = Log::read(&*sender)?;
    log.beside(&mut Log::read(&*receiver)?)?;
    log.answer()
}

/// What the log of a world's sender is answered with.
pub fn answer(world: &World) -> Result<Answer, WhyError> {
    let sink = Sink::default();
    world.run(Some(Arc::new(sink.clone())))?;
    let log = core::mem::take(&mut *sink.0.lock().unwrap());
    log.answer()
}
